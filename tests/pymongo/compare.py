#!/usr/bin/env python3
"""Judges a run of pymongo's own test suite.

    compare.py run.xml [file ...]

`baseline.txt` names the tests that pass on a real MongoDB 6.0.5 (a replica set of one, test commands on) and
that need a server. Each must pass in `run.xml` or stand in `known-failures.txt`, with its reason. With file names
(test_crud_unified ...) only the tests of these are judged. Fails when a test fails that is not listed, and when one passes
that is.
"""

import collections
import fnmatch
import pathlib
import sys
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).parent


def file_of(test):
    """The file of a test: `test.test_bulk.TestBulk::test_x` -> `test_bulk`."""
    path = test.split("::")[0].split(".")
    return next((part for part in path if part.startswith("test_")), path[0])


def read_reasons():
    """The known failures: a list of (pattern, reason). A reason stands above the tests that it is for."""
    reasons, reason = [], []
    fresh = True
    for line in (HERE / "known-failures.txt").read_text().splitlines():
        line = line.strip()
        if line.startswith("#"):
            reason = ([] if fresh else reason) + [line.lstrip("# ")]
            fresh = False
        elif line:
            reasons.append((line, " ".join(reason)))
            fresh = True
    return reasons


def passed(run):
    """How often each test passed: parametrised ones share a name."""
    counts = collections.Counter()
    for case in xml.etree.ElementTree.parse(run).getroot().iter("testcase"):
        if all(case.find(outcome) is None for outcome in ("failure", "error", "skipped")):
            counts[f"{case.get('classname')}::{case.get('name')}"] += 1
    return counts


def main():
    run, *only = sys.argv[1:]
    baseline = collections.Counter((HERE / "baseline.txt").read_text().splitlines())
    reasons = read_reasons()
    counts = passed(run)
    files = collections.defaultdict(lambda: [0, 0, 0])
    unexpected, stale = [], []
    for test, wanted in sorted(baseline.items()):
        name = file_of(test)
        if only and name not in only:
            continue
        found = min(wanted, counts[test])
        reason = next((why for pattern, why in reasons if fnmatch.fnmatchcase(test, pattern.replace("[", "[[]"))), None)
        row = files[name]
        row[0] += found
        row[1] += wanted
        if found < wanted and reason is None:
            unexpected.append(test)
        elif found < wanted:
            row[2] += wanted - found
        elif reason is not None and "*" not in test:
            stale.append(test)
    width = max((len(name) for name in files), default=0)
    for name, (good, wanted, known) in sorted(files.items()):
        note = "" if good == wanted else f"   {known} known, {wanted - good - known} NEW"
        print(f"{name:{width}}  {good:4} of {wanted:4}{note}")
    good = sum(row[0] for row in files.values())
    wanted = sum(row[1] for row in files.values())
    print(f"{'all':{width}}  {good:4} of {wanted:4}   {100 * good / max(wanted, 1):.1f} %")
    for test in unexpected:
        print(f"FAILED, and not in known-failures.txt: {test}")
    for test in stale:
        print(f"passes, but stands in known-failures.txt: {test}")
    return 1 if unexpected or stale else 0


if __name__ == "__main__":
    sys.exit(main())
