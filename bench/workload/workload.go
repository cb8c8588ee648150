// Package workload has the table of what is measured: who wants which locks, from how many processes and goroutines.
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
	Handover Shape = "handover" // one process releases what another one waits for
	Holding  Shape = "holding"  // many leases are held, and do nothing but being renewed
	Pending  Shape = "pending"  // very many wait for one lock, which is then released
	Cut      Shape = "cut"      // pairs, while all connections are cut again and again
)

// Naming is which lock a goroutine takes.
type Naming string

// The namings.
const (
	Hot      Naming = "hot"      // all the same one
	Distinct Naming = "distinct" // each its own
	Zipf     Naming = "zipf"     // one of Names, some much more often than others
	Fresh    Naming = "fresh"    // one that nobody ever took
)

// Workload is one row of the table. It goes to the processes as it is.
type Workload struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	About string `json:"about"`
	Shape Shape  `json:"shape"`

	Processes  int    `json:"processes"`  // each with clients of its own
	Clients    int    `json:"clients"`    // in each process
	Goroutines int    `json:"goroutines"` // of each client
	Naming     Naming `json:"naming"`
	Names      int    `json:"names,omitempty"` // of a Zipf naming; how many locks are held or pending

	Lock    peer.Kind     `json:"lock"`
	Reads   float64       `json:"reads,omitempty"`   // share of read locks, the rest are write locks
	Permits int           `json:"permits,omitempty"` // of a semaphore
	Section time.Duration `json:"section"`
	Poll    time.Duration `json:"poll,omitempty"`    // how often waiters of libraries that poll ask: of 1, 10 and 100 ms the best for them here
	Linger  time.Duration `json:"linger,omitempty"`  // a contender that can keeps released locks for so long
	Visits  time.Duration `json:"visits,omitempty"`  // the last process takes only one of the first's locks every so often, each in its turn
	WaitMin time.Duration `json:"waitMin,omitempty"` // of a Handover: the release comes so long after the other began to wait
	WaitMax time.Duration `json:"waitMax,omitempty"`

	Series string `json:"series,omitempty"` // workloads of one series are one curve over X
	X      int    `json:"x,omitempty"`
	XLabel string `json:"xLabel,omitempty"`

	Peers   []string      `json:"peers"`
	Guarded bool          `json:"-"` // bench-check compares its ratios
	Long    time.Duration `json:"-"` // a window longer than the others'
	Short   int           `json:"-"` // Names in a quick run
	Limits  []Limit       `json:"-"`
	Oracle  bool          `json:"oracle,omitempty"` // the section is checked by a counter in Redis
	Lease   time.Duration `json:"lease"`            // set by the run
}

// Total is the number of goroutines in all processes.
func (w Workload) Total() int { return w.Processes * w.Clients * w.Goroutines }

// Apart reports whether no two goroutines want the same name.
func (w Workload) Apart() bool {
	return w.Visits == 0 && w.Naming == Distinct || w.Naming == Fresh || w.Shape == Holding || w.Total() == 1
}

// Isolated reports whether each repetition has processes of its own, and no other contender's beside it. What one repetition leaves in memory
// would be missing from the heap of the next, and cuts would meet contenders that are not being measured.
func (w Workload) Isolated() bool { return w.Shape == Holding || w.Shape == Pending || w.Shape == Cut }

// NameOf is the lock of a goroutine, or for Zipf of a rank.
func (w Workload) NameOf(prefix string, n int) string {
	if w.Naming == Hot {
		n = 0
	}
	return fmt.Sprintf("%s:%d", prefix, n)
}

// Primary is the figure by which contenders are compared, and whether more of it is better.
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

// Limit keeps a contender out of what it cannot do; the results say why.
type Limit struct {
	Peer string
	Most int // goroutines, or locks held or pending
	Why  string
}

// Refused is why a contender is not asked to do this workload; "": it is.
func (w Workload) Refused(peer string) string {
	for _, l := range w.Limits {
		if l.Peer == peer && max(w.Total(), w.Names) > l.Most {
			return l.Why
		}
	}
	return ""
}
