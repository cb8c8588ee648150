package holdfasttest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// export is the code under test: it writes a report, unless another process does so already.
func export(ctx context.Context, rt *holdfast.Runtime, work func(ctx context.Context) error) error {
	return rt.Lock("export").TryDo(ctx, work)
}

func Example() {
	t := &exampleT{} // in a test, the *testing.T
	defer t.end()

	ctx := context.Background()
	server := holdfasttest.New(t)
	rt := server.Runtime(holdfast.Options{Lease: 2 * time.Second})
	work := func(ctx context.Context) error { fmt.Println("exporting"); return nil }

	free := server.HeldElsewhere("export")
	fmt.Println("taken:", errors.Is(export(ctx, rt, work), holdfast.ErrNotAcquired))
	free()
	fmt.Println("free:", export(ctx, rt, work))

	endless := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	lost := export(ctx, rt, func(ctx context.Context) error { server.Lose("export"); return endless(ctx) })
	fmt.Println("lost:", errors.Is(lost, holdfast.ErrLeaseLost))
	cut := export(ctx, rt, func(ctx context.Context) error { server.Cut(rt); return endless(ctx) })
	fmt.Println("no Redis:", errors.Is(cut, holdfast.ErrLeaseLost))
	// Output:
	// taken: true
	// exporting
	// free: <nil>
	// lost: true
	// no Redis: true
}

// exampleT stands in for the *testing.T, which an example does not have.
type exampleT struct{ recorded }

func (*exampleT) Helper()           {}
func (*exampleT) Output() io.Writer { return io.Discard }
