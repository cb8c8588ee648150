package promises_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/locktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	countName    = "HOLDFAST_COUNT_NAME"
	countFile    = "HOLDFAST_COUNT_FILE"
	countAddress = "HOLDFAST_COUNT_ADDRESS"
	countWorkers = 64
)

func init() { childproc.Register("count", countInChild) }

// countInChild increments the number in a plain file, in many goroutines, under one lock. The standard input of the process says how often
// each goroutine does so.
func countInChild() {
	if err := countUnderLock(os.Getenv(countAddress), os.Getenv(countName), os.Getenv(countFile)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func countUnderLock(address, name, file string) error {
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	each, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: address})
	defer func() { _ = client.Close() }()
	rt, err := holdfast.New(client, holdfast.Options{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	failed := make(chan error, countWorkers)
	var group sync.WaitGroup
	for range countWorkers {
		group.Go(func() {
			for range each {
				if err := rt.Lock(name).Do(ctx, func(context.Context) error { return increment(file) }); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return err
	}
	return rt.Close(ctx)
}

func increment(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600)
}

// Two operating-system processes, 64 goroutines each, increment a number in a plain file under one lock.
func TestProcesses_CountInAFile(t *testing.T) {
	t.Parallel()
	total := locktest.Scaled(20_000, 2_000)
	const processes = 2
	each := total/processes/countWorkers + 1
	server := redistest.Start(t)
	name, file := redistest.Name(t), filepath.Join(t.TempDir(), "number")
	require.NoError(t, os.WriteFile(file, []byte("0"), 0o600))
	var children []*childproc.Handle
	for range processes {
		child := childproc.Run(t, "count", countAddress+"="+server.Addr(), countName+"="+name, countFile+"="+file)
		child.Send("%d\n", each)
		children = append(children, child)
	}
	for _, child := range children {
		require.NoError(t, child.Wait(), child.Stderr())
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, strconv.Itoa(each*processes*countWorkers), string(text))
	keys, err := server.Client(t).Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	assert.Empty(t, keys, "no key is left")
}
