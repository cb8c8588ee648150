package workload

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// Each list names the contenders of some workloads. A library takes part only if it has the kind of lock that the workload needs. Floors are
// contenders without a lock library. They do not wait for a lock, so they take part only in workloads in which no two goroutines want the same lock.
// The exception is bare-publish, which takes part in the workloads of shape Handover.
var (
	libraries   = []string{"holdfast", "redislock", "redislock-auto", "redsync", "rueidislock", "rueidislock-default", "redisson", "etcd"}
	wanted      = with(libraries, "redislock-mutex")
	withMutex   = with(wanted, "sync.Mutex")
	withFloors  = with(libraries, "bare-evalsha", "bare-set", "bare-batches", "raw")
	alone       = with(libraries, "bare-evalsha", "bare-set", "sync.Mutex")
	keeping     = []string{"holdfast", "redislock", "redislock-auto", "redsync", "rueidislock"}
	passers     = with(libraries, "bare-publish")
	readWriters = []string{"holdfast", "redisson", "sync.Mutex"}
	fair        = []string{"holdfast", "redisson", "etcd"}
	counters    = []string{"holdfast", "redisson"}
	keepers     = []string{"holdfast", "redislock", "redislock-auto", "redsync", "rueidislock", "redisson", "etcd"}
	onRedis     = []string{"holdfast", "redislock", "redislock-auto", "redsync", "rueidislock", "rueidislock-default", "redisson"}
)

// holdLimits exclude contenders from holding a million leases.
var holdLimits = []Limit{
	{"redislock", 100_000, "it needs a goroutine, a ticker and a call for each lease: a hundred thousand calls a second"},
	{"redislock-auto", 100_000, "it needs a goroutine, a ticker and a call for each lease: a hundred thousand calls a second"},
	{"redsync", 100_000, "it needs a goroutine, a ticker and a call for each lease: a hundred thousand calls a second"},
	{"rueidislock", 100_000, "it needs a goroutine, a timer and a call for each lease: a hundred thousand calls a second"},
	{"redisson", 100_000, "it would take longer to acquire them than their first renewals allow"},
	{"etcd", 100_000, "it would take longer to acquire them than all other workloads together"},
}

func with(names []string, more ...string) []string {
	return append(append([]string(nil), names...), more...)
}

// All lists the workloads in the order in which they run.
var All = table()

func table() (all []Workload) {
	add := func(w Workload) {
		w.Processes, w.Clients, w.Goroutines = max(w.Processes, 1), max(w.Clients, 1), max(w.Goroutines, 1)
		if w.Poll == 0 {
			w.Poll = 100 * time.Millisecond
		}
		if w.Lock == "" {
			w.Lock = peer.Exclusive
		}
		all = append(all, w)
	}
	add(Workload{
		Name: "free-1", Title: "Free lock, one goroutine", Shape: Pairs, Naming: Distinct, Peers: alone, Guarded: true,
		About: "One goroutine acquires and releases a lock that nobody else wants: two round trips, and what the library adds.",
	})
	for _, n := range []int{64, 1000, 10_000} {
		add(Workload{
			Name: fmt.Sprintf("distinct-%d", n), Title: fmt.Sprintf("Distinct locks, %d goroutines", n), Shape: Pairs, Naming: Distinct,
			Goroutines: n, Peers: withFloors, Series: "distinct", X: n, XLabel: "goroutines", Guarded: n <= 1000,
			Limits: []Limit{{"etcd", 5000, "its server refuses more than 5000 requests at once"}},
			About:  "Each goroutine has a lock of its own. What counts is how well the calls share pipelines.",
		})
	}
	for _, n := range []int{1, 64} {
		add(Workload{
			Name: fmt.Sprintf("linger-%d", n), Title: fmt.Sprintf("The same locks again and again, goroutines: %d, Options.Linger", n), Shape: Pairs, Naming: Distinct,
			Goroutines: n, Linger: peer.Lease / 4, Peers: with(keeping, "sync.Mutex"),
			About: "Each goroutine takes the lock that it has just released. Holdfast may keep it in between, which it does not do by default. The others cannot.",
		})
		add(Workload{
			Name: fmt.Sprintf("linger-%d-visited", n), Title: fmt.Sprintf("The same, and another process takes each lock every %d ms", 100*max(n/10, 1)), Shape: Pairs, Naming: Distinct,
			Processes: 2, Goroutines: n, Linger: peer.Lease / 4, Visits: 100 * time.Millisecond * time.Duration(max(n/10, 1)) / time.Duration(n), Peers: keeping,
			About: "From time to time a second process asks for each of the locks, so that the first process has to give them up.",
		})
	}
	for _, n := range []int{2, 64, 1000} {
		add(Workload{
			Name: fmt.Sprintf("hot-%d", n), Title: fmt.Sprintf("Hot lock in one process, %d goroutines", n), Shape: Pairs, Naming: Hot,
			Goroutines: n, Peers: withMutex, Series: "hot", X: n, XLabel: "goroutines", Guarded: n == 64,
			About: "All goroutines of one process want the same lock; the section is empty.",
		})
	}
	for _, section := range []time.Duration{0, time.Millisecond} {
		for _, n := range []int{2, 8, 32} {
			add(Workload{
				Name:  fmt.Sprintf("hot-%dp-%dms", n, section.Milliseconds()),
				Title: fmt.Sprintf("Hot lock over %d processes, %s section", n, orEmpty(section)), Shape: Pairs, Naming: Hot,
				Processes: n, Goroutines: 8, Section: section, Peers: wanted,
				Series: fmt.Sprintf("hot-processes-%dms", section.Milliseconds()), X: n, XLabel: "processes",
				About: "Eight goroutines in each of the processes want the same lock.",
			})
		}
	}
	add(Workload{
		Name: "zipf", Title: "10 000 names, some hot", Shape: Pairs, Naming: Zipf, Names: 10_000, Processes: 2, Goroutines: 64, Peers: wanted,
		Poll:  10 * time.Millisecond,
		About: "128 goroutines of two processes take one of 10 000 locks, by Zipf's law with s = 1.1: about every seventh wants the same one.",
	})
	add(Workload{
		Name: "read-mostly", Title: "Readers and few writers", Shape: Pairs, Naming: Hot, Reads: 0.95, Goroutines: 64, Peers: readWriters,
		Lock: peer.Write, Section: time.Millisecond, About: "64 goroutines of one process, 95 % of the acquires for reading, sections of 1 ms.",
	})
	add(Workload{
		Name: "fair", Title: "Fair lock over 4 processes", Shape: Pairs, Naming: Hot, Processes: 4, Goroutines: 4, Lock: peer.Fair, Peers: fair,
		About: "First come, first served across processes, empty sections: the server is called for each holder.",
	})
	add(Workload{
		Name: "semaphore", Title: "Semaphore of 8 permits over 4 processes", Shape: Pairs, Naming: Hot, Processes: 4, Goroutines: 8,
		Lock: peer.Semaphore, Permits: 8, Section: time.Millisecond, Peers: counters,
		About: "32 goroutines want one of eight permits for 1 ms each. Holdfast's permits are leases that are renewed; those of Redisson's RSemaphore are not.",
	})
	add(Workload{
		Name: "handover", Title: "Hand-over to a process that has just begun to wait", Shape: Handover, Naming: Hot, Processes: 2, Peers: passers,
		WaitMin: time.Millisecond, WaitMax: 4 * time.Millisecond, Poll: time.Millisecond, Guarded: true,
		About: "One process releases, 1 to 4 ms after the other began to wait. The wait is from the call of release to the end of the other's acquire. " +
			"An etcd watch is slow while it is younger than 100 ms: see the next workload.",
	})
	add(Workload{
		Name: "handover-late", Title: "Hand-over to a process that has waited for a while", Shape: Handover, Naming: Hot, Processes: 2, Peers: passers,
		WaitMin: 50 * time.Millisecond, WaitMax: 450 * time.Millisecond, Poll: time.Millisecond, Long: 5 * time.Second,
		About: "As before, 50 to 450 ms after the other began to wait.",
	})
	add(Workload{
		Name: "churn", Title: "New names, each once, for 10 s", Shape: Pairs, Naming: Fresh, Names: 1_000_000, Short: 2000, Goroutines: 64, Peers: libraries, Long: 10 * time.Second,
		About: "Every pair takes a lock that was never taken before, until the time is over or a million names are used. How much of them is left in heap and Redis?",
	})
	add(Workload{
		Name: "cut", Title: "All connections are cut", Shape: Cut, Naming: Hot, Clients: 32, Section: 5 * time.Millisecond, Poll: 10 * time.Millisecond, Peers: onRedis, Long: 10 * time.Second,
		About: "32 clients want one lock for 5 ms each, while every connection of every client is killed every 20 to 50 ms. " +
			"How long was the lock free although all wanted it, and did anyone wait for ever?",
	})
	for _, n := range []int{1000, 100_000, 1_000_000} {
		add(Workload{
			Name: fmt.Sprintf("held-%d", n), Title: fmt.Sprintf("%d held leases", n), Shape: Holding, Naming: Distinct, Names: n, Goroutines: 64,
			Peers: keepers, Series: "held", X: n, XLabel: "held leases", Long: 10 * time.Second, Short: min(n, 500+n/500),
			Limits: holdLimits,
			About: "Leases of 30 s are held, and only renewed every 10 s. Their cost: CPU, heap, scripts. " +
				"Libraries without renewal run what their documentation recommends for it: a goroutine and a ticker for each lock.",
		})
	}
	add(Workload{
		Name: "pending-100000", Title: "100 000 pending acquires", Shape: Pending, Naming: Hot, Processes: 2, Names: 100_000, Short: 2000, Peers: onRedis, Long: 5 * time.Second,
		About: "100 000 acquires of one process wait for a lock that another process holds. This measures the cost of waiting. Then the lock is released.",
	})
	return all
}

func orEmpty(section time.Duration) string {
	if section == 0 {
		return "empty"
	}
	return section.String()
}

// ByName returns the workload of that name.
func ByName(name string) (Workload, bool) {
	for _, w := range All {
		if w.Name == name {
			return w, true
		}
	}
	return Workload{}, false
}
