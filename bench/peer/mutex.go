package peer

import (
	"context"
	"fmt"
	"sync"
)

var mutexPeer = &Peer{
	Name:   "sync.Mutex",
	About:  "the lock of Go's standard library, which is for one process (sync.RWMutex for readers)",
	Source: "the standard library",
	Role:   Ceiling,
	Kinds:  []Kind{Exclusive, Read, Write},
	Open: func(context.Context, Env) (Client, error) {
		return &mutexClient{}, nil
	},
}

type mutexClient struct{ locks sync.Map }

func (c *mutexClient) Acquire(_ context.Context, kind Kind, name string) (Held, error) {
	found, ok := c.locks.Load(name)
	if !ok {
		found, _ = c.locks.LoadOrStore(name, new(mutexLock))
	}
	lock := found.(*mutexLock)
	switch kind {
	case Exclusive:
		lock.mu.Lock()
		return lock, nil
	case Read:
		lock.rw.RLock()
		return (*mutexReader)(lock), nil
	case Write:
		lock.rw.Lock()
		return (*mutexWriter)(lock), nil
	}
	return nil, fmt.Errorf("sync.Mutex has no %s", kind)
}

func (c *mutexClient) Close() error { return nil }

type mutexLock struct {
	mu sync.Mutex
	rw sync.RWMutex
}

type (
	mutexReader mutexLock
	mutexWriter mutexLock
)

func (l *mutexLock) Release(context.Context) error {
	l.mu.Unlock()
	return nil
}

func (l *mutexReader) Release(context.Context) error {
	l.rw.RUnlock()
	return nil
}

func (l *mutexWriter) Release(context.Context) error {
	l.rw.Unlock()
	return nil
}
