package soak_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// pace is the load that the processes put on the servers, per second.
type pace struct{ connections, scripts float64 }

// meter counts connections and scripts.
type meter struct {
	known   map[*redis.Client]int64 // the last count of scripts of each server
	scripts int64                   // of all servers
}

// read adds the scripts that the servers have run since the last read. A restarted server counts from zero again, so read is called before each
// fault of a server. A server that does not answer is counted at the next read.
func (m *meter) read(servers []*redis.Client) int64 {
	for _, server := range servers {
		info, err := server.Info(context.Background(), "commandstats").Result()
		if err != nil {
			continue
		}
		now := scriptsIn(info)
		if now < m.known[server] {
			m.known[server] = 0
		}
		m.scripts += now - m.known[server]
		m.known[server] = now
	}
	return m.scripts
}

func scriptsIn(info string) (sum int64) {
	for line := range strings.Lines(info) {
		for _, command := range []string{"eval", "evalsha"} {
			var n int64
			if _, err := fmt.Sscanf(line, "cmdstat_"+command+":calls=%d", &n); err == nil {
				sum += n
			}
		}
	}
	return sum
}

// connections returns how many connections the processes have opened so far, or tried to open while a link refused them or a server was down.
// Unlike the servers' own figures, it includes neither connections between servers nor those of the test.
func (w *world) connections() (sum int) {
	for _, p := range w.processes {
		for _, link := range p.links {
			sum += link.Accepted()
		}
	}
	return sum
}

// open returns how many connections the processes have. Their clients decide that: a pool grows when a client needs many at once.
func (w *world) open() (sum int) {
	for _, p := range w.processes {
		sum += p.open()
	}
	return sum
}

func (p *process) open() (sum int) {
	for _, link := range p.links {
		sum += link.Open()
	}
	return sum
}

// disturbs counts the connections of the clients that a fault is about to disturb.
func (w *world) disturbs(processes ...*process) {
	for _, p := range processes {
		w.counts.disturbed.Add(int64(p.open()))
	}
}

// measured runs f and returns the pace of the processes meanwhile.
func (w *world) measured(f func()) pace {
	start, connections, scripts := time.Now(), w.connections(), w.meter.read(w.stage.everyone())
	f()
	seconds := time.Since(start).Seconds()
	return pace{
		connections: float64(w.connections()-connections) / seconds,
		scripts:     float64(w.meter.read(w.stage.everyone())-scripts) / seconds,
	}
}

// storms returns error texts for a round in which the processes put too much load on the servers. The processes may run at most three times as many
// scripts per second as in the quiet round. The quiet round is no measure for connections, since hardly any are opened once the pools are filled. A
// fault may make a client open its whole pool again, because connections break, or because the client gives them up when a reply is late. Until a
// server is back or a new password is known, each attempt opens one more connection. So for each fault, the disturbed clients may open three times as
// many connections as they have when the fault begins. A fault of a link or a process disturbs one client, and a fault of a server disturbs all.
func (l look) storms(quiet look) (wrong []string) {
	if most := 3 * quiet.pace.scripts; l.pace.scripts > most {
		wrong = append(wrong, fmt.Sprintf("%.0f scripts per second, more than %.0f", l.pace.scripts, most))
	}
	if most := 3 * l.disturbed; l.pace.connections > most {
		wrong = append(wrong, fmt.Sprintf("%.1f connections per second, more than %.1f", l.pace.connections, most))
	}
	return wrong
}
