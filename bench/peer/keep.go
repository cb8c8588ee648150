package peer

import (
	"context"
	"time"
)

// keepEvery renews a lease on its own goroutine with a ticker, as the documentation of libraries without a watchdog recommends.
func keepEvery(ctx context.Context, every time.Duration, lost func(), renew func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := renew(ctx); err != nil && ctx.Err() == nil {
				lost()
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
