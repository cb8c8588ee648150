package guides

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis would print each connection that Cut refuses
	m.Run()
}

var errBusy = errors.New("somebody else places it")

// placeOrder is the code under test.
func placeOrder(ctx context.Context, rt *holdfast.Runtime, ship func(ctx context.Context) error) error {
	err := rt.Lock("orders").Do(ctx, ship, holdfast.WithWait(2*time.Second))
	if _, taken := errors.AsType[*holdfast.BusyError](err); taken {
		return errBusy
	}
	return err
}

func shipped(context.Context) error { return nil }

func TestPlaceOrder_AnotherProcessHasTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		rt := server.Runtime() // the service's runtime

		free := server.HeldElsewhere("orders")
		require.ErrorIs(t, placeOrder(t.Context(), rt, shipped), errBusy)
		free()
		require.NoError(t, placeOrder(t.Context(), rt, shipped))
	})
}

func TestPlaceOrder_LosesTheLockMidway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		rt := server.Runtime()
		for _, lose := range []func(){
			func() { server.Lose("orders") }, // noticed within 10 s, a third of the lease
			func() { server.Cut(rt) },        // the lease ends after 30 s
		} {
			err := placeOrder(t.Context(), rt, func(ctx context.Context) error {
				lose()
				<-ctx.Done()
				return ctx.Err()
			})
			require.ErrorIs(t, err, holdfast.ErrLeaseLost)
		}
		server.Heal(rt)
	})
}

func TestPlaceOrder_RedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := holdfasttest.New(t)
		rt := server.Runtime()

		server.Cut(rt)
		err := placeOrder(t.Context(), rt, shipped)
		require.ErrorIs(t, err, holdfast.ErrNotAcquired)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.NotErrorIs(t, err, errBusy) // nobody else has it

		server.Heal(rt)
		require.NoError(t, placeOrder(t.Context(), rt, shipped))
	})
}
