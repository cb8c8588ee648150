package holdfast_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log"
)

// A table remembers the largest token that has written each row, and the UPDATE refuses smaller ones. So a holder may write as often
// as it likes, until the next holder has written. One that was paused past its lease, and comes back late, changes nothing.
func ExampleRuntime_FencedLock() {
	rt, end := newExample()
	defer end()
	db, err := sql.Open("example", "")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	ctx := context.Background()
	write := func(token int64, balance int) {
		result, err := db.ExecContext(ctx, "UPDATE accounts SET balance = ?, token = ? WHERE id = 'alice' AND token <= ?", balance, token, token)
		if err != nil {
			log.Fatal(err)
		}
		rows, _ := result.RowsAffected()
		fmt.Println(balance, "rows changed:", rows)
	}

	lock := rt.FencedLock("accounts/alice")
	slow, _ := lock.Acquire(ctx)
	late := slow.Token() // its process is paused from here on
	_ = slow.Release(ctx)
	next, _ := lock.Acquire(ctx)
	write(next.Token(), 100)
	write(next.Token(), 120)
	write(late, 50)
	_ = next.Release(ctx)
	// Output:
	// 100 rows changed: 1
	// 120 rows changed: 1
	// 50 rows changed: 0
}

// What follows is a database with one row that knows that one statement.

func init() { sql.Register("example", &account{}) }

type account struct{ balance, token int64 }

func (a *account) Open(string) (driver.Conn, error) { return a, nil }

func (a *account) ExecContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Result, error) {
	balance, token, largest := args[0].Value.(int64), args[1].Value.(int64), args[2].Value.(int64)
	if a.token > largest {
		return driver.RowsAffected(0), nil
	}
	a.balance, a.token = balance, token
	return driver.RowsAffected(1), nil
}

func (a *account) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (a *account) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (a *account) Close() error                        { return nil }
