package run

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// counters are what a server and the machine have done so far.
type counters struct {
	at       time.Time
	took     time.Duration // between two readings
	cpu      time.Duration // of the server
	scripts  float64       // EVALSHA, and EVAL of those that come with their text
	commands float64       // those within scripts, too
	in, out  float64       // bytes, as the server counts them
	idle     time.Duration // of all cores
	cores    int
	memory   float64       // of the server, now
	peers    float64       // connections to the server but the harness's, now
	clients  time.Duration // of the contender's processes
	harness  time.Duration
}

// commandsOf reads INFO's line of a command: cmdstat_evalsha:calls=12,...
func commandsOf(info, command string) float64 {
	calls, _, _ := strings.Cut(strings.TrimPrefix(field(info, "cmdstat_"+command), "calls="), ",")
	n, _ := strconv.ParseFloat(calls, 64)
	return n
}

// read asks the server. The cost of having asked before is taken off: own is what the last answer was long.
func (s *redisServer) read() (counters, int, error) {
	info, err := s.client.Info(context.Background(), "all").Result()
	if err != nil {
		return counters{}, 0, fmt.Errorf("ask Redis for its counters: %w", err)
	}
	idle, cores := idleCPU()
	seconds := number(info, "used_cpu_user") + number(info, "used_cpu_sys")
	return counters{
		at:       time.Now(),
		cpu:      time.Duration(seconds * float64(time.Second)),
		scripts:  commandsOf(info, "evalsha") + commandsOf(info, "eval"),
		commands: number(info, "total_commands_processed"),
		in:       number(info, "total_net_input_bytes"),
		out:      number(info, "total_net_output_bytes"),
		idle:     idle,
		cores:    cores,
		memory:   number(info, "used_memory"),
		peers:    number(info, "connected_clients") - 1,
	}, len(info), nil
}

// infoRequest is how long the harness's own question is on the wire.
const infoRequest = len("*2\r\n$4\r\ninfo\r\n$3\r\nall\r\n")

// since is what happened between two readings, without the first one itself, whose answer was own bytes long.
func (c counters) since(before counters, own int) counters {
	return counters{
		took:     c.at.Sub(before.at),
		cpu:      c.cpu - before.cpu,
		scripts:  c.scripts - before.scripts,
		commands: max(c.commands-before.commands-1, 0),
		in:       max(c.in-before.in-float64(infoRequest), 0),
		out:      max(c.out-before.out-float64(own), 0),
		idle:     c.idle - before.idle,
		cores:    c.cores,
		memory:   c.memory,
		peers:    c.peers,
		clients:  c.clients - before.clients,
		harness:  c.harness - before.harness,
	}
}

// tick is the unit of /proc: it has been 1/100 s on every Linux for decades.
const tick = 10 * time.Millisecond

// idleCPU is for how long all cores together have had nothing to do, on Linux, and how many cores those are. Linux measures idle time, but only
// samples the rest, and misses much of the work that comes in short bursts.
func idleCPU() (idle time.Duration, cores int) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		if fields[0] != "cpu" {
			cores++
			continue
		}
		for _, value := range fields[4:6] { // idle, and waiting for a disk
			n, _ := strconv.ParseInt(value, 10, 64)
			idle += time.Duration(n) * tick
		}
	}
	return idle, cores
}

// processCPU is what a process has used, on Linux.
func processCPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick
}

// others is how many cores other programs kept busy between two readings. All of it is read at the same two instants, so what the
// contender does before or after its window is its own.
func (c counters) others() float64 {
	busy := c.took*time.Duration(c.cores) - c.idle
	return max((busy-c.cpu-c.clients-c.harness).Seconds(), 0) / c.took.Seconds()
}

// harnessCPU is what this process has used.
func harnessCPU() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
