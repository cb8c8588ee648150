package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/holdfast-go/holdfast/actors/preflight"
	"github.com/holdfast-go/holdfast/protocol"
	"github.com/holdfast-go/holdfast/scripts"
)

// CheckServer tries everything that this engine needs from the servers for these kinds; see preflight.Check. If the engine closes before the check
// has finished, the error wraps ErrClosed.
func (e *Engine) CheckServer(ctx context.Context, kinds []*scripts.Kind) error {
	if !e.beginBackground() {
		return fmt.Errorf("holdfast: check: %w", protocol.ErrClosed)
	}
	defer e.background.Done()
	if e.process != "" {
		kinds = append(slices.Clone(kinds), scripts.Announcing)
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	err := preflight.Check(asking, preflight.Config{
		Nodes: e.masters, Publish: e.tells, Errors: e.causes, Site: &e.site, AckReplicas: e.policy.AckReplicas, Linger: e.policy.Linger > 0, NewID: e.policy.NewID,
		NewName: func() string { return e.id + "-" + strconv.FormatUint(e.Number(), 10) },
		Key: func(name string) (string, error) {
			address, err := e.Address(scripts.Lock, name)
			return address.Raw, err
		},
		Asking: &e.background,
	}, kinds)
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.Canceled): // the caller has given up, which says nothing about the server
		return fmt.Errorf("holdfast: check: %w", ctx.Err())
	case e.ctx.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("holdfast: check: %w", protocol.ErrClosed)
	}
	return err
}
