package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
	"github.com/holdfast-go/holdfast/bench/workload"
)

// Child executes the orders of the harness until its input ends. The input also ends when the harness dies.
func Child(orders io.Reader, reports io.Writer) error {
	c := &child{orders: make(chan Order), out: json.NewEncoder(reports)}
	go func() {
		defer close(c.orders)
		lines := bufio.NewReader(orders)
		for decoder := json.NewDecoder(lines); ; {
			var o Order
			if decoder.Decode(&o) != nil {
				return
			}
			c.orders <- o
		}
	}()
	for o := range c.orders {
		if err := c.obey(o); err != nil {
			c.report(Report{Event: Failed, Error: err.Error(), Client: o.Client})
		}
	}
	c.close()
	return nil
}

type child struct {
	orders  chan Order
	mu      sync.Mutex // guards out
	out     *json.Encoder
	order   Order // the Open order
	peer    *peer.Peer
	clients []peer.Client
	batches peer.Batches
	oracle  *oracle
	runs    int
	holding []hold // the lock that each client acquired by an Acquire order
}

func (c *child) report(r Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.out.Encode(r) // an error means that the harness is gone, so the input ends, too
}

func (c *child) obey(o Order) error {
	switch o.Do {
	case Open:
		if err := c.open(o); err != nil {
			return err
		}
		c.report(Report{Event: Opened})
	case Run:
		sample, err := c.run(o)
		if err != nil {
			return err
		}
		c.report(Report{Event: Done, Sample: sample})
	case Acquire:
		go c.step(o.Client, c.acquire)
	case Release:
		go c.step(o.Client, c.release)
	case Abandon, Drain: // the run was over already
	case Close:
		c.close()
		c.report(Report{Event: Closed})
	default:
		return fmt.Errorf("unknown order %q", o.Do)
	}
	return nil
}

func (c *child) open(o Order) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c.order, c.peer = o, peer.ByName(o.Peer)
	if c.peer == nil {
		return fmt.Errorf("no contender %q", o.Peer)
	}
	w := o.Workload
	if w.Oracle {
		c.oracle = newOracle(o.Env.Redis, o.Prefix)
	}
	if c.peer.OpenBatches != nil {
		return c.openBatches(ctx)
	}
	for range w.Clients {
		client, err := c.peer.Open(ctx, o.Env)
		if err != nil {
			return err
		}
		c.clients = append(c.clients, client)
	}
	c.holding = make([]hold, len(c.clients))
	if p, ok := c.clients[0].(peer.Preparer); ok && w.Lock == peer.Semaphore {
		return p.Prepare(ctx, w.NameOf(o.Prefix, 0))
	}
	return nil
}

func (c *child) openBatches(ctx context.Context) (err error) {
	names := make([]string, c.order.Workload.Goroutines)
	for i := range names {
		names[i] = c.order.Workload.NameOf(c.order.Prefix, i)
	}
	if c.batches, err = c.peer.OpenBatches(ctx, c.order.Env, names); err != nil {
		return err
	}
	if c.order.Workload.Oracle {
		return c.batches.Exclusive(ctx)
	}
	return nil
}

func (c *child) run(o Order) (*Sample, error) {
	switch c.order.Workload.Shape {
	case workload.Pairs, workload.Cut:
		return c.runPairs(o), nil
	case workload.Holding:
		return c.runHolding(o)
	case workload.Pending:
		return c.runPending(o)
	}
	return nil, errors.New("nothing to run for the shape " + string(c.order.Workload.Shape))
}

func (c *child) close() {
	for _, client := range c.clients {
		_ = client.Close()
	}
	if c.batches != nil {
		_ = c.batches.Close()
	}
	c.clients, c.batches = nil, nil
}
