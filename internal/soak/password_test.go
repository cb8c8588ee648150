package soak_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/chaos"
)

// user is the account of the processes. The test, and servers that connect to each other, use the default user.
const user = "app"

// password is the user's password, a number that each rotation increases. The processes may know an older one.
type password struct{ current, known atomic.Int64 }

// provide returns the user and the password that the processes know.
func (p *password) provide() (string, string) { return user, strconv.FormatInt(p.known.Load(), 10) }

// set creates the user on every server, or changes its password. A restarted server does not have the user.
func (p *password) set(w *world) {
	for _, server := range w.stage.everyone() {
		err := server.Do(context.Background(), "acl", "setuser", user, "on", "resetpass", ">"+strconv.FormatInt(p.current.Load(), 10),
			"~*", "&*", "+@all").Err()
		assert.NoError(w.t, err)
	}
}

// rotation changes the password, and closes all connections of the user. The processes learn the new password up to half a second later.
func (w *world) rotation() chaos.Fault {
	return chaos.Fault{Name: "new password", Weight: 2, Do: func(ctx context.Context, _ chaos.Target) {
		w.password.current.Add(1)
		w.password.set(w)
		for _, server := range w.stage.everyone() {
			assert.NoError(w.t, server.ClientKillByFilter(context.Background(), "user", user).Err())
		}
		chaos.Pause(ctx, rand.N(500*time.Millisecond))
		w.password.known.Store(w.password.current.Load())
	}}
}
