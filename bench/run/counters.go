package run

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// counters say what the server and the machine have done. The method `read` returns the totals so far; the method `since` returns the difference
// between two readings.
type counters struct {
	at       time.Time
	took     time.Duration // between two readings
	cpu      time.Duration // CPU of the server
	scripts  float64       // EVALSHA, and EVAL for scripts that are sent with their text
	commands float64       // including those within scripts
	in, out  float64       // bytes, as the server counts them
	others   time.Duration // CPU of programs that are no part of the run
	memory   float64       // memory that the server uses at the reading
	peers    float64       // connections to the server at the reading, except the harness's
	clients  time.Duration // CPU of the contender's processes
}

// commandsOf returns the number of calls from a command's line of INFO: cmdstat_evalsha:calls=12,...
func commandsOf(info, command string) float64 {
	calls, _, _ := strings.Cut(strings.TrimPrefix(field(info, "cmdstat_"+command), "calls="), ",")
	n, _ := strconv.ParseFloat(calls, 64)
	return n
}

// read reads the counters. It also returns the length of the server's answer in bytes, because the method `since` needs it.
func (s *redisServer) read() (counters, int, error) {
	info, err := s.client.Info(context.Background(), "all").Result()
	if err != nil {
		return counters{}, 0, fmt.Errorf("ask Redis for its counters: %w", err)
	}
	seconds := number(info, "used_cpu_user") + number(info, "used_cpu_sys")
	return counters{
		at:       time.Now(),
		cpu:      time.Duration(seconds * float64(time.Second)),
		scripts:  commandsOf(info, "evalsha") + commandsOf(info, "eval"),
		commands: number(info, "total_commands_processed"),
		in:       number(info, "total_net_input_bytes"),
		out:      number(info, "total_net_output_bytes"),
		others:   otherCPU(int(number(info, "process_id"))),
		memory:   number(info, "used_memory"),
		peers:    number(info, "connected_clients") - 1,
	}, len(info), nil
}

// infoRequest is the length in bytes of the harness's own request.
const infoRequest = len("*2\r\n$4\r\ninfo\r\n$3\r\nall\r\n")

// since returns what happened between two readings. It leaves out the command and the bytes of the harness's own reading. `own` is the length of the
// first reading's answer in bytes.
func (c counters) since(before counters, own int) counters {
	return counters{
		took:     c.at.Sub(before.at),
		cpu:      c.cpu - before.cpu,
		scripts:  c.scripts - before.scripts,
		commands: max(c.commands-before.commands-1, 0),
		in:       max(c.in-before.in-float64(infoRequest), 0),
		out:      max(c.out-before.out-float64(own), 0),
		others:   max(c.others-before.others, 0),
		memory:   c.memory,
		peers:    c.peers,
		clients:  c.clients - before.clients,
	}
}

// processCPU returns the CPU time that a process has used, on Linux.
func processCPU(pid int) time.Duration {
	p, _ := readProgram(pid)
	return p.own
}

// othersCores returns how many cores other programs kept busy between two readings.
func (c counters) othersCores() float64 { return c.others.Seconds() / c.took.Seconds() }
