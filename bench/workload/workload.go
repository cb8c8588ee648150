// Package workload has the table of workloads: the locks that are wanted, and the number of processes and goroutines that want them.
package workload

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// Shape is how a workload is driven.
type Shape string

// The shapes.
const (
	Pairs    Shape = "pairs"    // every goroutine acquires, stays in the section, releases, again and again
	Handover Shape = "handover" // one process releases a lock that another one waits for
	Holding  Shape = "holding"  // many leases are held and only renewed
	Pending  Shape = "pending"  // very many acquires wait for one lock, which is then released
	Cut      Shape = "cut"      // pairs, while all connections are cut again and again
)

// Naming says which lock a goroutine takes.
type Naming string

// The namings.
const (
	Hot      Naming = "hot"      // all the same one
	Distinct Naming = "distinct" // each its own
	Zipf     Naming = "zipf"     // one of Names names, some of them much more often than others
	Fresh    Naming = "fresh"    // a name that was never taken before
)

// Workload is one row of the table. It is sent to the processes unchanged.
type Workload struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	About string `json:"about"`
	Shape Shape  `json:"shape"`

	Processes  int    `json:"processes"`  // number of processes, each with clients of its own
	Clients    int    `json:"clients"`    // number in each process
	Goroutines int    `json:"goroutines"` // number for each client
	Naming     Naming `json:"naming"`
	Names      int    `json:"names,omitempty"` // number of names of a Zipf or Fresh naming, of held locks, or of pending acquires

	Lock    peer.Kind     `json:"lock"`
	Reads   float64       `json:"reads,omitempty"`   // share of read locks; the rest are write locks
	Permits int           `json:"permits,omitempty"` // number of permits of a semaphore
	Section time.Duration `json:"section"`
	Poll    time.Duration `json:"poll,omitempty"`    // interval at which polling waiters retry; of 1, 10 and 100 ms, the one with the best results
	Linger  time.Duration `json:"linger,omitempty"`  // how long a contender keeps released locks, if it can
	Visits  time.Duration `json:"visits,omitempty"`  // at this interval, the last process takes one of the first process's locks, each in turn
	WaitMin time.Duration `json:"waitMin,omitempty"` // in a Handover, the least time from the beginning of the wait to the release
	WaitMax time.Duration `json:"waitMax,omitempty"`

	Series string `json:"series,omitempty"` // workloads of one series form one curve over X
	X      int    `json:"x,omitempty"`
	XLabel string `json:"xLabel,omitempty"`

	Peers   []string      `json:"peers"`
	Guarded bool          `json:"-"` // bench-check compares the ratios of this workload with recorded ones
	Long    time.Duration `json:"-"` // length of the window, if it is longer than the run's window
	Short   int           `json:"-"` // the value of Names in a quick run
	Limits  []Limit       `json:"-"`
	Oracle  bool          `json:"oracle,omitempty"` // the section is checked by a counter in Redis
	Lease   time.Duration `json:"lease"`            // set by the run
}

// Total returns the number of goroutines in all processes.
func (w Workload) Total() int { return w.Processes * w.Clients * w.Goroutines }

// Apart reports whether no two goroutines want the same name.
func (w Workload) Apart() bool {
	return w.Visits == 0 && w.Naming == Distinct || w.Naming == Fresh || w.Shape == Holding || w.Total() == 1
}

// Isolated reports whether a contender is opened for each repetition and closed after it, so that no other contender is open meanwhile. If contenders
// stayed open, a repetition would reuse memory that the previous one left, and its heap would seem too small. Cuts would also hit contenders that are
// not being measured.
func (w Workload) Isolated() bool { return w.Shape == Holding || w.Shape == Pending || w.Shape == Cut }

// NameOf returns the name of goroutine n's lock. With a Zipf naming, it returns the name of the lock with rank n.
func (w Workload) NameOf(prefix string, n int) string {
	if w.Naming == Hot {
		n = 0
	}
	return fmt.Sprintf("%s:%d", prefix, n)
}

// Primary returns the figure by which contenders are compared, and whether a higher value is better.
func (w Workload) Primary() (figure string, higher bool) {
	switch w.Shape {
	case Handover:
		return "wait_p50_us", false
	case Holding:
		return "cpu_cores", false
	case Pending:
		return "waiting_cpu_cores", false
	case Cut:
		return "idle_longest_ms", false
	}
	return "pairs_per_s", true
}

// Limit excludes a contender from workloads that are too large for it. The results say why.
type Limit struct {
	Peer string
	Most int // highest number of goroutines, of held locks, or of pending acquires
	Why  string
}

// Refused returns why a contender is not asked to do this workload, or "" if it is asked.
func (w Workload) Refused(peer string) string {
	for _, l := range w.Limits {
		if l.Peer == peer && max(w.Total(), w.Names) > l.Most {
			return l.Why
		}
	}
	return ""
}
