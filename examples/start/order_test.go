package main

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/holdfasttest"
)

// placeOrder is the code under test. It does nothing if another process has the lock.
func placeOrder(ctx context.Context, rt *holdfast.Runtime) error {
	return rt.Lock("orders").TryDo(ctx, func(context.Context) error { return nil })
}

func TestPlaceOrder_IsRefusedWhileAnotherProcessHasTheLock(t *testing.T) {
	server := holdfasttest.New(t)
	rt := server.Runtime() // the service's runtime

	free := server.HeldElsewhere("orders") // held by another process until free is called
	if err := placeOrder(t.Context(), rt); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Fatal(err)
	}
	free()
	if err := placeOrder(t.Context(), rt); err != nil {
		t.Fatal(err)
	}
}
