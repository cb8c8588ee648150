package web

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/protocol"
)

// fake takes the place of a Redis: a test chooses its locks, its errors and its delays.
type fake struct {
	mu      sync.Mutex
	entries map[string]inspect.Entry
	err     error
	takes   time.Duration // how long each list takes
	silent  bool          // pings get no answer in time
	looks   int           // how often contended locks were listed; a look lists them at most once
	sweeps  int           // how often all locks were listed

	unlisted string // name that no list contains
}

func (f *fake) set(entries ...inspect.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries = map[string]inspect.Entry{}
	for _, e := range entries {
		f.entries[e.Name] = e
	}
}

func (f *fake) hide(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unlisted = name
}

func (f *fake) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fake) counts() (looks, sweeps int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.looks, f.sweeps
}

func (f *fake) list(_ context.Context, _ redis.UniversalClient, o inspect.ListOptions) iter.Seq2[inspect.Entry, error] {
	return func(yield func(inspect.Entry, error) bool) {
		f.mu.Lock()
		takes := f.takes
		f.mu.Unlock()
		<-time.After(takes)
		f.mu.Lock()
		defer f.mu.Unlock()
		if o.Contended {
			f.looks++
		} else {
			f.sweeps++
		}
		if f.err != nil {
			yield(inspect.Entry{}, f.err)
			return
		}
		for _, e := range f.entries {
			if (!o.Contended || e.Waiting > 0) && e.Name != f.unlisted && !yield(e, nil) {
				return
			}
		}
	}
}

func (f *fake) look(_ context.Context, _ redis.UniversalClient, name string) (inspect.Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, ok := f.entries[name]; ok && f.err == nil {
		return e, nil
	}
	return inspect.Entry{Name: name}, f.err
}

func (f *fake) slow(takes time.Duration, silent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.takes, f.silent = takes, silent
}

func (f *fake) ping(context.Context, redis.UniversalClient) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent {
		f.mu.Unlock()
		<-time.After(time.Minute)
		f.mu.Lock()
	}
	return f.err
}

func (f *fake) source() source {
	return source{
		list: f.list, look: f.look,
		processes: func(context.Context, redis.UniversalClient) ([]inspect.Process, error) { return nil, nil },
		free:      func(context.Context, redis.UniversalClient, string) (bool, error) { return true, nil },
		ping:      f.ping,
	}
}

// held returns a lock that one process holds, and for which the given number of processes wait.
func held(name string, waiting int) inspect.Entry {
	return inspect.Entry{Kind: protocol.KindLock, Name: name, Key: name, Mode: "exclusive", Waiting: waiting, TTL: lease30, Holders: []inspect.Holder{{ID: owner, Holds: 1, TTL: lease30}}}
}
