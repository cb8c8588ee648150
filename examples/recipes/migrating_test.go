package recipes

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

var errBusy = errors.New("busy")

func acquired(ctx context.Context, rt *holdfast.Runtime, work func(context.Context) error) (err error) {
	lease, err := rt.Lock("orders").Acquire(ctx, holdfast.WithWait(10*time.Second))
	if _, taken := errors.AsType[*holdfast.BusyError](err); taken {
		return errBusy
	}
	if err != nil {
		return err // Redis does not answer, or the runtime is closed
	}
	defer func() { err = errors.Join(err, lease.Release(ctx)) }() // ErrLeaseLost if it was lost
	held, cancel := lease.Context(ctx)
	defer cancel()
	return work(held) // held ends if the lock is lost
}

func tried(ctx context.Context, rt *holdfast.Runtime, work func(context.Context) error) error {
	err := rt.Lock("orders").TryDo(ctx, work)
	if _, taken := errors.AsType[*holdfast.BusyError](err); taken {
		return errBusy
	}
	return err
}

func done(ctx context.Context, rt *holdfast.Runtime, work func(context.Context) error) error {
	return rt.Lock("orders").Do(ctx, work)
}

func fixed(ctx context.Context, rt *holdfast.Runtime, work func(context.Context) error) error {
	return rt.Lock("orders").Do(ctx, work, holdfast.WithLease(8*time.Second))
}

func changingOver(client redis.UniversalClient) (*holdfast.Runtime, error) {
	return holdfast.New(client, holdfast.Options{Migrating: true})
}

// A process with Options.Migrating waits for a lock that redsync or redislock holds.
func TestMigrating_WaitsForAnOldLock(t *testing.T) {
	t.Parallel()
	client := holdfasttest.New(t).Client()
	rt, err := changingOver(client)
	require.NoError(t, err)
	defer func() { assert.NoError(t, rt.Close(context.Background())) }()
	require.NoError(t, client.SetNX(t.Context(), "orders", "random value", 0).Err()) // as these libraries acquire a lock
	assert.ErrorIs(t, rt.Lock("orders").TryDo(t.Context(), func(context.Context) error { return nil }), holdfast.ErrNotAcquired)
	waiting := rt.Lock("orders").AcquireAsync(t.Context())
	require.NoError(t, client.Del(t.Context(), "orders").Err()) // as these libraries release it
	<-waiting.Done()
	lease, err := waiting.Lease()
	require.NoError(t, err)
	assert.NoError(t, lease.Release(t.Context()))
}

// The example calls the functions of doc/migrating.md while the lock is free, and one of them while another process has it.
func Example_migrating() {
	rts, _, end := processes(2)
	defer end()
	ctx := context.Background()
	work := func(ctx context.Context) error { return ctx.Err() }

	fmt.Println(acquired(ctx, rts[0], work), tried(ctx, rts[0], work), done(ctx, rts[0], work), fixed(ctx, rts[0], work))
	err := rts[1].Lock("orders").Do(ctx, func(context.Context) error {
		fmt.Println(tried(ctx, rts[0], work))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	// Output:
	// <nil> <nil> <nil> <nil>
	// busy
}
