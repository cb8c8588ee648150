package with

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast"
)

var errStale = errors.New("the token is not newer than the last one")

// pay adds to the balance once for each token. The table stores the last token, and the statement refuses a write whose token is not newer. A write
// with the same token is a repetition. A write with an older token comes from a process that was paused, and does not know that another process has
// acquired the lock meanwhile.
func pay(ctx context.Context, db *sql.DB, token int64, amount int) error {
	result, err := db.ExecContext(ctx, `UPDATE account SET balance = balance + ?, token = ? WHERE id = 1 AND token < ?`, amount, token, token)
	if err != nil {
		return err
	}
	if changed, err := result.RowsAffected(); err != nil || changed == 1 {
		return err
	}
	return errStale
}

// A lock alone cannot stop a write that is already in flight when the lock is lost. The fencing token can.
func Example_sql() {
	rts, client, end := processes(2)
	defer end()
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file::memory:?cache=shared")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, token INTEGER);
		INSERT INTO account VALUES (1, 0, 0)`); err != nil {
		log.Fatal(err)
	}

	slow, err := rts[0].FencedLock("account 1").Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	late := slow.Token()         // the process is paused now,
	client.Del(ctx, "account 1") // and loses the lock
	err = rts[1].FencedLock("account 1").Do(ctx, func(ctx context.Context) error {
		token := holdfast.LeaseFromContext(ctx).Token()
		fmt.Println("paid:", pay(ctx, db, token, 10))
		fmt.Println("repeated:", pay(ctx, db, token, 10))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("late:", pay(ctx, db, late, 10))
	var balance int
	if err := db.QueryRow(`SELECT balance FROM account`).Scan(&balance); err != nil {
		log.Fatal(err)
	}
	fmt.Println("balance:", balance)

	// Output:
	// paid: <nil>
	// repeated: the token is not newer than the last one
	// late: the token is not newer than the last one
	// balance: 10
}
