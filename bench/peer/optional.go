package peer

import (
	"context"
	"time"
)

// closeWait bounds the end of a client.
const closeWait = 20 * time.Second

// Preparer is a Client whose semaphores must be given their permits before they are used.
type Preparer interface {
	Prepare(ctx context.Context, name string) error
}

// Starter is a Client that can wait for a lock without a goroutine for each.
type Starter interface {
	Start(ctx context.Context, name string) Waiting
}

// Waiting is a lock that is waited for.
type Waiting interface {
	Done() <-chan struct{}
	Held() (Held, error)
}
