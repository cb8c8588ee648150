package run

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc, which has been 1/100 s on every Linux for decades.
const tick = 10 * time.Millisecond

// program is a process of the machine.
type program struct {
	parent int
	kernel bool          // a kernel thread, which may do the work of any process
	own    time.Duration // CPU of the process itself
	all    time.Duration // own, plus the CPU of its children that have ended
}

// isKernel is the flag of kernel threads.
const isKernel = 0x00200000

// readProgram reads /proc/<pid>/stat.
func readProgram(pid int) (program, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return program{}, false
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if len(fields) < 15 {
		return program{}, false
	}
	value := func(i int) int64 {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return n
	}
	own := time.Duration(value(11)+value(12)) * tick
	return program{parent: int(value(1)), kernel: value(6)&isKernel != 0, own: own, all: own + time.Duration(value(13)+value(14))*tick}, true
}

// otherCPU returns the CPU time that other programs have used so far: all programs except the harness, its children and the server. The
// result includes the time that the host of a virtual machine took away. It does not include programs in other containers. /proc/stat counts
// those programs, too. But Linux finds the numbers in /proc/stat by sampling, and samples miss a part of short bursts.
func otherCPU(server int) time.Duration {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	programs := map[int]program{}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if p, ok := readProgram(pid); ok {
				programs[pid] = p
			}
		}
	}
	return others(programs, os.Getpid(), server) + stolen()
}

// others returns the CPU time of all programs. It leaves out kernel threads, the programs with the given process IDs, and the
// descendants of these programs. When a program has ended and its parent has waited for it, its CPU time counts as that of the parent.
func others(programs map[int]program, but ...int) (cpu time.Duration) {
	ours := map[int]bool{}
	for _, pid := range but {
		ours[pid] = true
	}
	for pid, p := range programs {
		within := false
		for at, depth := pid, 0; at > 0 && depth <= len(programs) && !within; at, depth = programs[at].parent, depth+1 {
			within = ours[at]
		}
		if !within && !p.kernel {
			cpu += p.all
		}
	}
	return cpu
}

// stolen returns the time that the host of a virtual machine took away while something wanted to run.
func stolen() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 {
		return 0
	}
	n, _ := strconv.ParseInt(fields[8], 10, 64)
	return time.Duration(n) * tick
}
