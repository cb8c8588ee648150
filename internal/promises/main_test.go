package promises_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/locktest"
)

func TestMain(m *testing.M) {
	childproc.Register("holder", holdUntilKilled)
	locktest.Main(m)
}
