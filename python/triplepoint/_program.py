# SPDX-License-Identifier: Apache-2.0
"""The command `triplepoint` of an installed wheel: the program that lies in the package."""
import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "triplepoint")
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as problem:
        sys.exit(f"triplepoint: {program} cannot be run ({problem.strerror}); install the package again")


if __name__ == "__main__":
    main()
