package linearize

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// What users do.
const (
	doAcquire = "acquire" // wait for the lock
	doTry     = "try"
	doValid   = "valid" // check the lease: it was valid, and Until was its deadline
	doLost    = "lost"  // its Done was closed without a release
	doExtend  = "extend"
	doRelease = "release"
	doForce   = "force" // release by force, no matter who holds it
	doWrite   = "write" // use the resource that checks tokens
)

// The answers.
const (
	isOK        = "ok"
	isBusy      = "busy"      // a try was refused, or a forced release found nothing
	isCancelled = "cancelled" // the wait was given up: nothing is held
	isLost      = "lost"
	isUnknown   = "unknown" // Redis did not confirm the outcome
	isRefused   = "refused" // by the resource, because of the token
)

// Op is one operation. Instants are ns since the run began.
type Op struct {
	Do      string
	Name    string
	Mode    string `json:",omitempty"` // read or write
	Runtime int
	User    int
	Lease   int           // number of the acquire that made the lease
	Owner   string        // may re-enter; an acquire without WithOwner has an owner of its own
	Length  time.Duration // of the lease
	Fixed   bool          `json:",omitempty"` // nobody renews it
	Call    time.Duration
	Return  time.Duration
	Result  string
	Grant   string        `json:",omitempty"` // the field in Redis
	Holder  string        `json:",omitempty"` // the holder that a refusal names
	Token   int64         `json:",omitempty"`
	Until   time.Duration `json:",omitempty"` // the lease's local deadline, as the user saw it
	Error   string        `json:",omitempty"`

	anyPlace bool     // the grant may have lost its place in the queue
	came     []string // grants that joined the end of the queue, in this order
}

// Look is what the observer saw of all names at one instant between Call and Return.
type Look struct {
	Call, Return time.Duration
	Server       time.Duration // its clock
	Seen         map[string]Seen
}

// Seen is what Redis has under a name.
type Seen struct {
	Holders []string      `json:",omitempty"` // fields of the hash, or ids of taken permits
	TTL     time.Duration `json:",omitempty"` // negative: there is none
	Queue   []string      `json:",omitempty"`
	Free    int64         `json:",omitempty"` // permits
	// Alive says until when each waiter's runtime counts as alive, by the server's clock.
	Alive map[string]time.Duration `json:",omitempty"`
}

// Fault is what the nemesis did.
type Fault struct {
	What       string
	Begin, End time.Duration
}

// Setting is the configuration of a run.
type Setting struct {
	Kind     string
	Mutant   string `json:",omitempty"`
	Broken   bool   `json:",omitempty"` // the mutant was used
	Seed     uint64
	Worked   time.Duration
	Lease    time.Duration // of the watchdog
	Longest  time.Duration // of all leases
	Permits  int           `json:",omitempty"`
	Names    []string
	Forced   string `json:",omitempty"` // the name whose lock is released by force now and then
	Runtimes []string
}

// History is all that was recorded of a run.
type History struct {
	Setting Setting
	Ops     []Op
	Looks   []Look
	Faults  []Fault
}

// line is one line of a history's file. Exactly one of the fields is set.
type line struct {
	Setting *Setting `json:",omitempty"`
	Op      *Op      `json:",omitempty"`
	Look    *Look    `json:",omitempty"`
	Fault   *Fault   `json:",omitempty"`
}

// recorder collects a history from many goroutines.
type recorder struct {
	start time.Time

	mu      sync.Mutex
	history History
}

func (r *recorder) now() time.Duration { return time.Since(r.start) }

func (r *recorder) op(op Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Ops = append(r.history.Ops, op)
}

func (r *recorder) look(look Look) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Looks = append(r.history.Looks, look)
}

func (r *recorder) fault(fault Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Faults = append(r.history.Faults, fault)
}

// worked notes how long the users have worked.
func (r *recorder) worked(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Setting.Worked = d
}

func (r *recorder) counts() (operations, grants int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.history.Counts()
}

// recorded returns the history so far.
func (r *recorder) recorded() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.history
	h.Ops, h.Looks, h.Faults = slices.Clone(h.Ops), slices.Clone(h.Looks), slices.Clone(h.Faults)
	return &h
}

// Counts returns how many operations were requests to the runtime, and how many of the requests were granted a lock. A user's look at a lease is not
// a request.
func (h *History) Counts() (operations, grants int) {
	for _, op := range h.Ops {
		switch op.Do {
		case doAcquire, doTry:
			operations++
			if op.Result == isOK {
				grants++
			}
		case doRelease, doExtend, doForce:
			operations++
		}
	}
	return operations, grants
}

// Keep writes the history to a new file and returns its path.
func (h *History) Keep() (path string, err error) {
	file, err := os.CreateTemp("", "linearize-*.jsonl")
	if err != nil {
		return "", err
	}
	err = h.write(file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return file.Name(), err
}

func (h *History) write(to io.Writer) error {
	out := bufio.NewWriter(to)
	lines := json.NewEncoder(out)
	err := lines.Encode(line{Setting: &h.Setting})
	for i := range h.Ops {
		err = firstOf(err, lines.Encode(line{Op: &h.Ops[i]}))
	}
	for i := range h.Looks {
		err = firstOf(err, lines.Encode(line{Look: &h.Looks[i]}))
	}
	for i := range h.Faults {
		err = firstOf(err, lines.Encode(line{Fault: &h.Faults[i]}))
	}
	return firstOf(err, out.Flush())
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// Read reads a history from a file that Keep has written.
func Read(path string) (*History, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	h := &History{}
	for lines := json.NewDecoder(bufio.NewReader(file)); ; {
		var l line
		switch err := lines.Decode(&l); {
		case err == io.EOF: //nolint:errorlint // the decoder returns that very value
			return h, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		case l.Setting != nil:
			h.Setting = *l.Setting
		case l.Op != nil:
			h.Ops = append(h.Ops, *l.Op)
		case l.Look != nil:
			h.Looks = append(h.Looks, *l.Look)
		case l.Fault != nil:
			h.Faults = append(h.Faults, *l.Fault)
		}
	}
}
