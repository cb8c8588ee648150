package web

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inspect"
)

const (
	maxLocks   = 20_000           // maximum number of locks in the list
	maxNames   = 50               // maximum number of locks that one look reads by name: those whose pages are open
	forgetting = 10 * time.Second // everything is forgotten this long after the last look
	remembered = 10 * time.Minute // a lock that is not in the list is forgotten this long after it was last read
	batch      = 500              // keys per SCAN and per pipeline
	rest       = 4                // a part of a look that took d is due again after rest * d
	within     = 30 * time.Second // time limit of a look
	doubtAfter = 3 * time.Second  // if a look takes longer than this, a ping finds out whether Redis answers: see the method doubt
	pingWithin = 2 * time.Second  // time limit of that ping
)

var errSilent = errors.New("a ping to Redis got no answer")

// source has the functions of package inspect with which the page reads and frees locks, and the client to pass to them.
type source struct {
	client    redis.UniversalClient
	list      func(context.Context, redis.UniversalClient, inspect.ListOptions) iter.Seq2[inspect.Entry, error]
	look      func(context.Context, redis.UniversalClient, string) (inspect.Entry, error)
	processes func(context.Context, redis.UniversalClient) ([]inspect.Process, error)
	free      func(context.Context, redis.UniversalClient, string) (bool, error)
	ping      func(context.Context, redis.UniversalClient) error
}

// looker reads Redis while somebody watches. One reading serves all viewers, and is called a look. A look reads the locks whose pages are open, and
// does the parts that are due: list all locks, list the contended ones, read the processes. Between two looks the looker has only a timer, and no
// goroutine.
type looker struct {
	source
	pattern string
	every   time.Duration // the least time from one look to the next

	mu      sync.Mutex
	views   map[view]int // the views that somebody watches, with the number of viewers
	looking bool         // a look is under way, or due
	began   time.Time    // when the last look began
	snap    *snapshot

	everything, contended, named pace // when each part is due again: list all locks, list the contended ones, read the names of processes
}

// snapshot is what the looks have shown so far. After it is published, only the map `parts` changes: it gets the parts that are rendered.
type snapshot struct {
	since     time.Time        // when the looker began to note changes
	tried     time.Time        // when the last look ended
	at        time.Time        // when the last look that succeeded ended
	swept     time.Time        // when all keys were read last
	locks     map[string]*lock // by name
	sorted    []*lock          // the locks to be listed
	cut       bool             // there are more locks than the list may contain
	processes []inspect.Process
	announced time.Time // when the processes were last read
	err       string    // error of the last look, or "" if it succeeded
	failed    time.Time // when looks began to fail, or zero if they do not fail

	next chan struct{} // closed when there is a newer snapshot

	mu    sync.Mutex
	parts map[view][]part // the parts that were rendered from this snapshot
}

func newLooker(from source, pattern string) *looker {
	return &looker{
		source: from, pattern: pattern, every: time.Second,
		views: map[view]int{}, snap: &snapshot{next: make(chan struct{})},
	}
}

// watch makes the looker look at what a view shows, until the function `done` is called.
func (l *looker) watch(v view) (done func()) {
	v = v.subject()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.views[v]++
	l.schedule()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.views[v]--; l.views[v] == 0 {
			delete(l.views, v)
		}
	}
}

// latest returns the newest snapshot.
func (l *looker) latest() *snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snap
}

// fresh waits for a snapshot that is new enough and shows what a view needs, and returns it. It also returns a snapshot of a look that has
// just failed. If neither comes within the duration `patience`, fresh returns the latest snapshot. It returns nil if ctx ends first.
func (l *looker) fresh(ctx context.Context, v view) *snapshot {
	defer l.watch(v)()
	began := time.Now()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		s := l.latest()
		if s.covers(v, began.Add(-3*l.every)) || s.err != "" && s.tried.After(began.Add(-l.every)) {
			return s
		}
		select {
		case <-s.next:
		case <-late.C:
			return s
		case <-ctx.Done():
			return nil
		}
	}
}

// covers reports whether a snapshot shows what a view needs, and is newer than the instant `since`.
func (s *snapshot) covers(v view, since time.Time) bool {
	switch v.Page {
	case "lock":
		lock := s.locks[v.Name]
		return lock != nil && lock.at.After(since)
	case "processes":
		return !s.announced.IsZero() && s.at.After(since)
	}
	return !s.swept.IsZero() && s.at.After(since)
}

// schedule lets the next look begin as soon as l.every allows, if anybody watches and no look is under way or due. The caller has the mutex.
func (l *looker) schedule() {
	if !l.looking && len(l.views) > 0 {
		l.looking = true
		time.AfterFunc(time.Until(l.began.Add(l.every)), l.lookAround)
	}
}

// lookAround looks once.
func (l *looker) lookAround() {
	l.mu.Lock()
	views, before := slices.Collect(maps.Keys(l.views)), l.snap
	if len(views) == 0 { // the viewers have left
		l.looking = false
		l.mu.Unlock()
		return
	}
	began := time.Now()
	l.began = began
	l.mu.Unlock()
	doubt := time.AfterFunc(doubtAfter, func() { l.doubt(began) })
	defer doubt.Stop()

	round := newRound(l, before)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	round.do(&l.everything, func() error { return round.list(ctx, false) })
	round.do(&l.contended, func() error { return round.list(ctx, true) })
	if round.err == nil {
		round.look(ctx, views)
	}
	if slices.ContainsFunc(views, round.namesProcesses) {
		round.do(&l.named, func() error { return round.readProcesses(ctx) })
	}
	if round.err == nil && !round.done { // no part was due, so a ping shows whether Redis answers
		round.err = l.ping(ctx, l.client)
	}
	cancel()
	after := round.end()

	l.mu.Lock()
	defer l.mu.Unlock()
	if after.err != "" && !l.snap.failed.IsZero() {
		after.failed = l.snap.failed // the method doubt has already published the failure, as of an earlier instant
	}
	l.publish(after)
	l.looking = false
	l.schedule()
}

// publish makes a snapshot the latest one. The caller has the mutex.
func (l *looker) publish(s *snapshot) {
	close(l.snap.next)
	l.snap = s
}

// doubt runs when a look takes long: there may be many keys, or Redis may be down. If Redis does not answer a ping, doubt tells the viewers, before
// the client gives up.
func (l *looker) doubt(began time.Time) {
	answer := make(chan error, 1)
	go func() { answer <- l.ping(context.Background(), l.client) }()
	silent := time.NewTimer(pingWithin) // clients may ignore the context
	defer silent.Stop()
	var err error
	select {
	case err = <-answer:
	case <-silent.C:
		err = errSilent
	}
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.looking && l.began.Equal(began) && l.snap.err == "" {
		l.publish(l.snap.doubted(err, began))
	}
}

// doubted returns a copy of the snapshot. The copy says that looks have failed with this error since the given instant.
func (s *snapshot) doubted(err error, since time.Time) *snapshot {
	return &snapshot{
		since: s.since, tried: time.Now(), at: s.at, swept: s.swept, locks: s.locks, sorted: s.sorted, cut: s.cut,
		processes: s.processes, announced: s.announced, err: err.Error(), failed: since, next: make(chan struct{}),
	}
}

// pace says when one part of a look is due again. It keeps Redis from being busy with that part for more than a fifth of the time.
type pace struct{ next time.Time }

// round is one look.
type round struct {
	*looker
	*snapshot
	err  error
	done bool // at least one part was due and was done
}

func newRound(l *looker, before *snapshot) *round {
	s := &snapshot{
		since: before.since, at: before.at, swept: before.swept, locks: maps.Clone(before.locks), cut: before.cut,
		processes: before.processes, announced: before.announced, failed: before.failed, next: make(chan struct{}),
	}
	if time.Since(before.tried) > forgetting { // nobody has watched, and what happened meanwhile is unknown: begin anew
		s.since, s.swept, s.locks, s.announced = time.Now(), time.Time{}, map[string]*lock{}, time.Time{}
	}
	return &round{looker: l, snapshot: s}
}

// do calls the function `part`, which does one part of the look, if that part is due and no other part has failed. A part that fails is due again in
// the next look.
func (r *round) do(pace *pace, part func() error) {
	if r.err != nil || time.Now().Before(pace.next) {
		return
	}
	began := time.Now()
	if r.err, r.done = part(), true; r.err == nil {
		pace.next = time.Now().Add(rest * time.Since(began))
	}
}

// list reads all locks, or those that are contended.
func (r *round) list(ctx context.Context, contended bool) error {
	began, found, cut := time.Now(), 0, false
	for entry, err := range r.source.list(ctx, r.client, inspect.ListOptions{Pattern: r.pattern, Contended: contended, Batch: batch}) {
		if err != nil {
			return err
		}
		if found++; found > maxLocks {
			cut = true
			break
		}
		r.note(entry, !r.swept.IsZero())
		r.locks[entry.Name].listed = true
	}
	for name, lock := range r.locks {
		switch {
		case !lock.at.Before(began) || !lock.listed:
		case contended && lock.Waiting > 0 && !cut: // its waiters have gone
			r.locks[name] = lock.calmed(time.Now())
		case contended || lock.Kind == "":
		case cut: // the lock may be in the rest of the list, which was not read
			r.locks[name] = lock.unlisted()
		case len(lock.Holders) > 0 || lock.Waiting == 0: // no longer in use (a free fair lock with waiters is in use, but has no key to list)
			r.note(inspect.Entry{Name: name}, true)
		}
	}
	if !contended {
		r.swept, r.cut = time.Now(), cut
	}
	return nil
}

// look looks at the locks whose pages are open.
func (r *round) look(ctx context.Context, views []view) {
	looks := 0
	for _, v := range views {
		if lock := r.locks[v.Name]; v.Page != "lock" || lock != nil && lock.at.After(r.began) {
			continue
		}
		if looks++; looks > maxNames {
			break
		}
		entry, err := r.source.look(ctx, r.client, v.Name)
		if err == nil || isForeign(err) || r.locks[v.Name] == nil {
			r.note(entry, false)
		}
		if err != nil { // only the viewers of this lock see the error; they also still see what was read last
			r.locks[v.Name] = r.locks[v.Name].failed(time.Now(), err)
		}
	}
	for _, v := range views {
		if lock := r.locks[v.Name]; v.Page == "lock" && lock != nil {
			r.locks[v.Name] = lock.sampled()
		}
	}
}

// namesProcesses reports whether a view also shows processes that are not holders, such as waiters.
func (r *round) namesProcesses(v view) bool {
	lock := r.locks[v.Name]
	return v.Page == "processes" || v.Page == "lock" && lock != nil && len(lock.Queue) > 0
}

func (r *round) readProcesses(ctx context.Context) (err error) {
	if r.processes, err = r.source.processes(ctx, r.client); err == nil {
		r.announced = time.Now()
	}
	return err
}

// note records what is known of a lock now. The parameter fresh has the same meaning as in the function follow.
func (r *round) note(e inspect.Entry, fresh bool) {
	r.locks[e.Name] = follow(r.locks[e.Name], e, time.Now(), fresh)
}

// end completes the snapshot.
func (r *round) end() *snapshot {
	s, now := r.snapshot, time.Now()
	s.tried = now
	if r.err != nil {
		s.err = r.err.Error()
		if s.failed.IsZero() {
			s.failed = now
		}
	} else {
		s.at, s.failed = now, time.Time{}
	}
	for name, lock := range s.locks {
		if !lock.toList() && now.Sub(lock.at) > remembered {
			delete(s.locks, name)
		}
		if lock.toList() {
			s.sorted = append(s.sorted, lock)
		}
	}
	slices.SortFunc(s.sorted, byContention(now))
	s.forget()
	return s
}

// forget bounds the memory for locks that are not listed.
func (s *snapshot) forget() {
	for name, lock := range s.locks {
		if len(s.locks) <= 2*maxLocks {
			return
		}
		if !lock.toList() {
			delete(s.locks, name)
		}
	}
}
