// Package load is what runs in a measured process: it opens clients of one contender and drives them as a workload says. The
// harness and the process talk in lines of JSON, Orders on standard input, Reports on standard output; the JVM that plays Redisson
// speaks the same.
package load

import (
	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/workload"
)

// What an Order asks for.
const (
	Open    = "open"    // make the clients; answered with Opened
	Run     = "run"     // drive them; answered with Done
	Abandon = "abandon" // give up who still waits at the end of a run; no answer
	Drain   = "drain"   // what the pending ones wait for was released; no answer
	Acquire = "acquire" // one client acquires the hot lock; answered with At
	Release = "release" // and releases it; answered with At, the instant before
	Close   = "close"   // close the clients; answered with Closed
)

// Order is one line to a process.
type Order struct {
	Do       string             `json:"do"`
	Peer     string             `json:"peer,omitempty"`
	Env      peer.Env           `json:"env"`
	Workload *workload.Workload `json:"workload,omitempty"`
	Prefix   string             `json:"prefix,omitempty"` // of all names
	Process  int                `json:"process"`
	Client   int                `json:"client"` // of an Acquire or Release
	Start    int64              `json:"start"`  // of a Run, in ns since 1970: all processes begin at once
	Window   int64              `json:"window"` // of a Run, in ns
}

// What a Report tells.
const (
	Opened   = "opened"
	Progress = "progress" // a few times a second during a run
	Mark     = "mark"     // the measured part of a run begins, or ends: look at the server
	Done     = "done"
	At       = "at"
	Closed   = "closed"
	Failed   = "failed" // instead of any other answer
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

// Sample is what one process measured in one run.
type Sample struct {
	Pairs     int64     `json:"pairs"`     // acquired and released within the window
	All       int64     `json:"all"`       // those that ended later, too
	Elapsed   int64     `json:"elapsed"`   // ns, of the window
	CPU       int64     `json:"cpu"`       // ns, of this process within the window
	Waits     string    `json:"waits"`     // of all acquires in ns: an HDR histogram in its V2 compressed encoding, base64
	Seconds   []float64 `json:"seconds"`   // pairs/s of each whole second of the window
	PerClient []int64   `json:"perClient"` // pairs
	PerWorker []int64   `json:"perWorker"` // pairs
	Allocs    float64   `json:"allocs"`    // objects on the heap, for All; -1: not known
	Heap      float64   `json:"heap"`      // bytes more than before, after a collection: see the shape; -1: not known
	Stuck     int       `json:"stuck"`     // given up at the end of the run
	Overlaps  int       `json:"overlaps"`  // two in a section that is for one
	Errors    int       `json:"errors"`
	Error     string    `json:"error,omitempty"` // the first one
	Idle      int64     `json:"idle"`            // ns, the longest that nobody held the lock within the window
	Lost      int       `json:"lost"`            // held leases that were lost

	AcquireNs int64 `json:"acquireNs,omitempty"` // to get all that is held, or to start all that wait
	DrainNs   int64 `json:"drainNs,omitempty"`   // to serve those who waited, or until the time was over
	Served    int64 `json:"served,omitempty"`
}
