// Etcdserver is a real etcd server with one member. The harness builds and starts it, so etcd need not be installed.
//
//	etcdserver <data directory> <client port>
package main

import (
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: etcdserver <data directory> <client port>")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "etcdserver:", err)
		os.Exit(1)
	}
}

// serve runs the server with etcd's defaults, except for the addresses and the log level.
func serve(dir, port string) error {
	clients, peers := url.URL{Scheme: "http", Host: "127.0.0.1:" + port}, url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config := embed.NewConfig()
	config.Dir, config.LogLevel = dir, "error"
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{clients}, []url.URL{clients}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peers}, []url.URL{peers}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	return <-server.Err()
}
