"""Running a script under the doctor: the session, child processes, the doctor's own cost."""
