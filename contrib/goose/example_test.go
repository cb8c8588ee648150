package goose_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pressly/goose/v3"

	"github.com/holdfast-go/holdfast"
	holdgoose "github.com/holdfast-go/holdfast/contrib/goose"
	"github.com/holdfast-go/holdfast/embedded"
)

// Every instance of a service runs the migrations when it starts, and only one of them applies any.
func ExampleNewLocker() {
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
	db, err := sql.Open("sqlite", filepath.Join(dir, "orders.db"))
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()

	files := migrations(3) // in a service: an embed.FS
	for _, instance := range []string{"first", "second"} {
		provider, err := goose.NewProvider(goose.DialectSQLite3, db, files,
			goose.WithLocker(holdgoose.NewLocker(rt, "orders/migrations")))
		if err != nil {
			panic(err)
		}
		applied, err := provider.Up(ctx)
		fmt.Println(instance, "applied", len(applied), err)
	}
	// Output:
	// first applied 3 <nil>
	// second applied 0 <nil>
}
