package with

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/embedded"
)

// processes returns a runtime for each of n simulated processes, and a client of the same Redis.
func processes(n int) (rts []*holdfast.Runtime, client redis.UniversalClient, end func()) {
	server, err := embedded.Start() // in production: a Redis server
	if err != nil {
		log.Fatal(err)
	}
	for range n {
		rt, err := holdfast.New(server.Client(), holdfast.Options{})
		if err != nil {
			log.Fatal(err)
		}
		rts = append(rts, rt)
	}
	return rts, server.Client(), func() {
		for _, rt := range rts {
			_ = rt.Close(context.Background())
		}
		_ = server.Close()
	}
}
