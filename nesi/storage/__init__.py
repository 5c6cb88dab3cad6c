"""Files that survive a crash: records, arrays, the directory of an experiment."""
