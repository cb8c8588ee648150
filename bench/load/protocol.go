// Package load is the program that runs in a measured process. It opens clients of one contender, which is one of the compared
// libraries. The clients acquire and release locks as the workload says. The harness and the process exchange lines of JSON: Orders on
// standard input, Reports on standard output. The JVM that runs Redisson uses the same protocol.
package load

import (
	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/workload"
)

// The kinds of an Order.
const (
	Open    = "open"    // open the clients; the answer is Opened
	Run     = "run"     // drive the clients; the answer is Done
	Abandon = "abandon" // give up the acquires that still wait at the end of a run; no answer
	Drain   = "drain"   // the holder was ordered to release the lock that the pending acquires wait for; no answer
	Acquire = "acquire" // one client acquires the hot lock; the answer is At
	Release = "release" // one client releases the hot lock; the answer is At, with the instant before the release
	Close   = "close"   // close the clients; the answer is Closed
)

// Order is one line to a process.
type Order struct {
	Do       string             `json:"do"`
	Peer     string             `json:"peer,omitempty"`
	Env      peer.Env           `json:"env"`
	Workload *workload.Workload `json:"workload,omitempty"`
	Prefix   string             `json:"prefix,omitempty"` // prefix of all names
	Process  int                `json:"process"`
	Client   int                `json:"client"` // which client executes an Acquire or Release
	Start    int64              `json:"start"`  // when a Run begins, in ns since 1970, the same for all processes
	Window   int64              `json:"window"` // length of a Run's window, in ns
}

// The events of a Report.
const (
	Opened   = "opened"
	Progress = "progress" // a few times a second during a run
	Mark     = "mark"     // the measured part of a run begins or ends; the harness reads the server's counters
	Done     = "done"
	At       = "at"
	Closed   = "closed"
	Failed   = "failed" // the answer if an order fails
)

// Report is one line from a process.
type Report struct {
	Event   string  `json:"event"`
	Error   string  `json:"error,omitempty"`
	Client  int     `json:"client"`
	At      int64   `json:"at,omitempty"`      // ns since 1970
	Pairs   int64   `json:"pairs,omitempty"`   // so far
	Waiting int     `json:"waiting,omitempty"` // goroutines in an acquire
	Sample  *Sample `json:"sample,omitempty"`
}

// Sample has the measurements of one process in one run.
type Sample struct {
	Pairs     int64     `json:"pairs"`     // number of pairs acquired and released within the window
	All       int64     `json:"all"`       // number of pairs, including those that ended after the window
	Elapsed   int64     `json:"elapsed"`   // ns, of the window
	CPU       int64     `json:"cpu"`       // ns, of this process within the window
	Waits     string    `json:"waits"`     // how long each acquire took, in ns: an HDR histogram in its V2 compressed encoding, base64
	Seconds   []float64 `json:"seconds"`   // pairs/s of each whole second of the window
	PerClient []int64   `json:"perClient"` // pairs
	PerWorker []int64   `json:"perWorker"` // pairs
	Allocs    float64   `json:"allocs"`    // heap allocations during the pairs that All counts, or -1 if not known
	Heap      float64   `json:"heap"`      // growth of the heap by used names, held locks or pending acquires, in bytes; negative if not known
	Stuck     int       `json:"stuck"`     // acquires that were given up at the end of the run
	Overlaps  int       `json:"overlaps"`  // how often a section had more holders than allowed
	Errors    int       `json:"errors"`
	Error     string    `json:"error,omitempty"` // the first one
	Idle      int64     `json:"idle"`            // ns, the longest time within the window in which nobody held the lock
	Lost      int       `json:"lost"`            // held leases that were lost

	AcquireNs int64 `json:"acquireNs,omitempty"` // time to acquire all held locks, or to start all pending acquires
	DrainNs   int64 `json:"drainNs,omitempty"`   // time to release all held locks, or until the pending acquires were served or given up
	Served    int64 `json:"served,omitempty"`
}
