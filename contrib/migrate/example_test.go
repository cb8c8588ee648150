package migrate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/holdfast-go/holdfast"
	holdmigrate "github.com/holdfast-go/holdfast/contrib/migrate"
	"github.com/holdfast-go/holdfast/embedded"
)

// Every instance of a service runs the migrations when it starts, and only one of them applies any.
func ExampleWrap() {
	ctx := context.Background()
	server, err := embedded.Start() // in a service: its Redis
	if err != nil {
		panic(err)
	}
	defer func() { _ = server.Close() }()
	rt, err := holdfast.New(server.Client(), holdfast.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = rt.Close(ctx) }()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	for _, instance := range []string{"first", "second"} {
		driver, err := open(filepath.Join(dir, "orders.db"))
		if err != nil {
			panic(err)
		}
		files, err := iofs.New(migrations(3), ".")
		if err != nil {
			panic(err)
		}
		driver = holdmigrate.Wrap(driver, rt, "orders/migrations", 10*time.Second)
		m, err := migrate.NewWithInstance("iofs", files, "orders", driver)
		if err != nil {
			panic(err)
		}
		fmt.Println(instance, m.Up())
		_, _ = m.Close()
	}
	// Output:
	// first <nil>
	// second no change
}
