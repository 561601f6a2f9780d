"""A log of six requests on two engines, small enough to follow by hand. One tick is one second.

engine 0   r0 [0, 10)  r4 (waits 4-5) [5, 9)   idle 10-13   r1 [13, 20)   tail 20-25
engine 1   r2 [0, 16)  r3 (waits 9-11) [11, 18)              tail 18-25    r5 refused at 25
"""

from sim.cost._coefficients import Coefficients
from sim.log.record import Log

REQUESTS = """
 # request session group turn last attempt engine | submitted arrived scheduled first ended
   0       0       0     0    0    0       0        0         0       0         4     10
   1       0       0     1    1    0       0        13        13      13        15    20
   2       1       0     0    1    0       1        0         0       0         6     16
   3       2       1     0    1    0       1        9         9       11        15    18
   4       3       2     0    0    0       0        4         4       5         8     9
   5       3       2     1    1    0       1        25        25      -1        -1    25
 """
TOKENS = """
 # prompt cached queried hit limit output prefill recomputed preemptions status reason parent
   100    0      100     0   16    4      100     0          0           0      0      -1
   150    96     150     96  16    6      54      0          0           0      0      -1
   100    0      100     0   16    6      110     10         1           0      0      -1
   80     40     240     120 16    1      40      0          0           0      0      -1
   60     0      60      0   16    5      60      0          0           0      0      -1
   9000   0      0       0   16    0      0       0          0           2      0      -1
 """
DECISIONS = """
 # request attempt at engine branch in_flight total matched retry replica waited service age best tokens work
   0       0       0  0      0      0         0     0       0     0       0      1       0   0    0      0
   2       0       0  1      1      0         1     0       0     0       1      1       0   0    96     0
   4       0       4  0      0      1         2     0       0     0       0      1       4   1    0      60
   3       0       9  1      1      1         2     0       0     0       2      1       9   0    40     20
   1       0       13 0      0      0         1     96      0     0       0      1       -1  -1   -1     -1
   5       0       25 1      1      0         0     0       0     0       3      1       -1  -1   -1     -1
 """
GROUPS = """
 # group arrived ended sessions finished
   0     0       20    2        2
   1     9       18    1        1
   2     4       25    1        0
 """
ENGINES = """
 # engine start end kind steps chunk repeat decodes context pairs chunks tokens waiting used cached
   0      0     4   1    1     100   0      0       0       5050  1      100    0       100  0
   0      4     5   1    1     0     0      1       100     0     0      1      1       101  0
   0      5     8   1    1     60    0      1       101     1830  1      61     0       162  0
   0      8     10  1    1     0     0      2       163     0     0      2      0       164  0
   0      13    15  1    1     54    0      0       0       6669  1      54     0       150  0
   0      15    20  1    5     0     0      1       150     0     0      1      0       155  0
   1      0     6   1    1     100   0      0       0       5050  1      100    0       100  0
   1      6     11  1    5     0     0      1       100     0     0      1      0       105  0
   1      11    15  1    1     50    10     0       0       1500  2      50     0       180  0
   1      15    18  1    3     0     0      1       105     0     0      1      0       184  0
 """
STEPS = """
 # step version start end updated accepted rejected samples tokens aborted age_sum age_max
   0    0       0     10  13      1        1        1       10     1       0       0
   1    1       13    25  -1      2        0        2       11     0       1       1
 """


def rows(text: str) -> list[list[int]]:
    """The numbers of a table, line by line."""
    return [[int(word) for word in line.split()] for line in text.splitlines() if line.strip() and "#" not in line]


def six_requests() -> Log:
    """The log."""
    costs = Coefficients(t0=1.0, slopes=((0, 0.03),), host0=0.25, host1=0.125, seq=0.2, chunk=0.25)
    log = Log(["http://engine-0", "http://engine-1"], [costs, costs], tick_s=1.0)
    for left, right in zip(rows(REQUESTS), rows(TOKENS), strict=True):
        log.requests.append(left + right)
    for table, text in (("groups", GROUPS), ("decisions", DECISIONS), ("engines", ENGINES), ("steps", STEPS)):
        for row in rows(text):
            getattr(log, table).append(row)
    log.branch_code("consistent_hash")
    log.branch_code("random_fallback")
    log.deadline_s = 9.0
    log.router_cores = 2
    log.prefill_ideal = 300
    return log
