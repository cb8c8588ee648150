package scripts_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // otherwise go-redis would log every reply that makes no sense
	redistest.Main(m)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
