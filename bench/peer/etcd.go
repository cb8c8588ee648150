package peer

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

var etcdPeer = &Peer{
	Name: "etcd",
	About: "etcd's concurrency.Mutex on a real etcd server of one member, its data in a directory of its own, with fsync as always; " +
		"a session for each goroutine, since two mutexes of one session do not exclude each other, but one session for all where no two want " +
		"the same name",
	Source:  "go.etcd.io/etcd/client/v3/concurrency",
	Role:    Library,
	Kinds:   []Kind{Exclusive, Fair},
	Renews:  true,
	Needs:   "etcd",
	Modules: []string{"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/server/v3"},
	Open:    openEtcd,
}

type etcdClient struct {
	client   *clientv3.Client
	sessions chan *concurrency.Session
	shared   *concurrency.Session // one session for all goroutines, if no two want the same name; otherwise nil
	ttl      int
}

func openEtcd(_ context.Context, env Env) (Client, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{env.Etcd}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	c := &etcdClient{client: client, sessions: make(chan *concurrency.Session, max(env.Goroutines, 1)), ttl: max(int(env.Lease/time.Second), 1)}
	if env.Apart {
		c.shared, err = c.newSession()
	}
	return c, err
}

func (c *etcdClient) newSession() (*concurrency.Session, error) {
	return concurrency.NewSession(c.client, concurrency.WithTTL(c.ttl))
}

// session returns the shared session if there is one, and otherwise a session that nobody uses. Sessions are reused, so there are no more
// sessions than goroutines.
func (c *etcdClient) session() (*concurrency.Session, error) {
	if c.shared != nil {
		return c.shared, nil
	}
	select {
	case s := <-c.sessions:
		return s, nil
	default:
		return c.newSession()
	}
}

func (c *etcdClient) back(s *concurrency.Session) {
	if s == c.shared {
		return
	}
	select {
	case c.sessions <- s:
	default:
		_ = s.Close()
	}
}

// Acquire serves fair locks, too: a Mutex grants in the order of its keys' revisions.
func (c *etcdClient) Acquire(ctx context.Context, _ Kind, name string) (Held, error) {
	s, err := c.session()
	if err != nil {
		return nil, err
	}
	mutex := concurrency.NewMutex(s, "/"+name)
	if err := mutex.Lock(ctx); err != nil {
		c.back(s)
		return nil, err
	}
	return &etcdHeld{c, s, mutex}, nil
}

func (c *etcdClient) Close() error {
	if c.shared != nil {
		_ = c.shared.Close()
	}
	for {
		select {
		case s := <-c.sessions:
			_ = s.Close()
		default:
			return c.client.Close()
		}
	}
}

type etcdHeld struct {
	client  *etcdClient
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func (h *etcdHeld) Release(ctx context.Context) error {
	err := h.mutex.Unlock(ctx)
	h.client.back(h.session)
	return err
}
