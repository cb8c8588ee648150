package peer

import (
	"context"
	"time"
)

// closeWait is the time limit for closing a client.
const closeWait = 20 * time.Second

// Preparer is a Client whose semaphores must be given their number of permits before use.
type Preparer interface {
	Prepare(ctx context.Context, name string) error
}

// Starter is a Client that can wait for locks without a goroutine for each wait.
type Starter interface {
	Start(ctx context.Context, name string) Waiting
}

// Waiting is a pending acquire.
type Waiting interface {
	Done() <-chan struct{}
	Held() (Held, error)
}
