// Package connect creates Redis clients from URLs.
package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Default is the server that is used if neither a flag nor the environment names one.
const Default = "redis://localhost:6379"

// Open creates a client for the server, cluster or Sentinels that a URL names. It does no I/O except for reading certificates. Its errors
// contain no part of the URL that may be a password.
//
// A URL begins with redis://, rediss:// (TLS) or unix://, and may have user:password@ in front of the host. Several hosts, separated by
// commas, are a cluster, and so is one host with ?cluster=true. With ?master=NAME, the hosts are Sentinels. Further parameters are db, ca,
// cert, key, server_name, skip_verify, sentinel_user, sentinel_password, and the timeouts and pool sizes of go-redis.
//
// If a rediss:// URL probably names a server without TLS, the client calls the function `warn`, because the errors of go-redis do not reveal that
// mistake. The client may call `warn` concurrently.
func Open(text string, warn func(text string)) (redis.UniversalClient, error) {
	t, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("the URL of Redis: %w", err)
	}
	t.warn = warn
	client, err := t.client()
	if err != nil {
		return nil, fmt.Errorf("the URL of Redis: %w", err)
	}
	return client, nil
}

// target has the parts of a URL of Redis.
type target struct {
	first url.URL // the URL with only the first host, and the parameters that go-redis reads
	hosts []string
	own   map[string]string // the parameters that the list ours names
	doubt bool              // there is an @ after the host, so the text before the @ may be part of a password
	warn  func(text string)
}

// ours are the parameters that go-redis does not know.
var ours = []string{"master", "cluster", "ca", "cert", "key", "server_name", "sentinel_user", "sentinel_password"}

func parse(text string) (*target, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return nil, errors.New("it must begin with redis://, rediss:// or unix://")
	}
	if scheme == "unix" {
		return newTarget(text, nil)
	}
	if scheme != "redis" && scheme != "rediss" {
		return nil, errors.New("it must begin with redis://, rediss:// or unix://")
	}
	// The items of a list may also be complete URLs: redis://a,redis://b. Only the user and password of the first are used.
	parts := strings.Split(rest, ","+scheme+"://")
	for i, part := range parts[1:] {
		parts[i+1] = part[strings.LastIndex(part, "@")+1:]
	}
	rest = strings.Join(parts, ",")
	end := strings.IndexAny(rest, "/?")
	if at := strings.LastIndex(rest, "@"); at > end && end >= 0 && strings.ContainsAny(rest[:at], "/?") && !strings.Contains(rest[end:], "=") {
		return nil, errors.New("characters such as / and ? in a password are written as %2F and %3F")
	}
	if end < 0 {
		end = len(rest)
	}
	authority, path := rest[:end], rest[end:]
	user := ""
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, authority = authority[:at+1], authority[at+1:]
	}
	hosts := strings.Split(authority, ",")
	for i, host := range hosts {
		if hosts[i] = strings.TrimSpace(host); hosts[i] == "" && len(hosts) > 1 {
			return nil, errors.New("a host of the list is empty")
		}
	}
	return newTarget(scheme+"://"+user+hosts[0]+path, hosts)
}

func newTarget(text string, hosts []string) (*target, error) {
	u, err := url.Parse(text)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the URL, which may contain a password
		}
		if _, escape := errors.AsType[url.EscapeError](err); escape {
			err = errors.New("characters such as % and @ in a password are written as %25 and %40")
		} else if strings.Contains(err.Error(), "port") || strings.Contains(err.Error(), "userinfo") {
			err = errors.New("a port is not a number, or a password has characters that must be written as %XX")
		}
		return nil, err
	}
	if u.Fragment != "" {
		return nil, errors.New("a # in a password is written as %23")
	}
	t := &target{first: *u, hosts: hosts, own: map[string]string{}, doubt: strings.Contains(u.Path+u.RawQuery, "@")}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("its parameters cannot be read")
	}
	for _, name := range ours {
		if query.Has(name) {
			t.own[name] = query.Get(name)
			query.Del(name)
		}
	}
	t.first.RawQuery = query.Encode()
	return t, nil
}

func (t *target) client() (redis.UniversalClient, error) {
	o, err := redis.ParseURL(t.first.String())
	if err != nil && t.doubt { // go-redis quotes what it cannot parse: for redis://:/secret=@host, its error would show the password
		return nil, errors.New("a parameter or the number of the database is wrong, or a password has characters that must be written as %XX")
	}
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err
		}
		return nil, err
	}
	if err := checkNumbers(o); err != nil {
		return nil, err
	}
	if err := t.secure(o); err != nil {
		return nil, err
	}
	o.DialerRetries = 1                    // go-redis also retries the whole command; with both retries, a silent address is reported only after 100 s
	o.MaxRetries = cmp.Or(o.MaxRetries, 1) // if the server hangs, each retry takes twice the timeout
	o.ReadTimeout = cmp.Or(o.ReadTimeout, 3*time.Second)
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	cluster := len(t.hosts) > 1
	if value, given := t.own["cluster"]; given {
		if cluster, err = strconv.ParseBool(value); err != nil {
			return nil, errors.New("cluster must be true or false")
		}
	}
	master, sentinels := t.own["master"]
	for _, name := range []string{"sentinel_user", "sentinel_password"} {
		if t.own[name] != "" && !sentinels {
			return nil, fmt.Errorf("%s needs master", name)
		}
	}
	switch {
	case sentinels && master == "":
		return nil, errors.New("master is empty")
	case sentinels && o.Network == "unix":
		return nil, errors.New("master needs Sentinels, which cannot be reached by a socket")
	case sentinels && t.own["cluster"] != "" && cluster:
		return nil, errors.New("master and cluster exclude each other")
	case sentinels:
		return redis.NewFailoverClient(t.universal(o, "26379").Failover()), nil
	case cluster && o.Network == "unix":
		return nil, errors.New("a cluster cannot be reached by a socket")
	case cluster && o.DB != 0:
		return nil, errors.New("a cluster has only database 0")
	case cluster:
		return redis.NewClusterClient(t.universal(o, "6379").Cluster()), nil
	case len(t.hosts) > 1:
		return nil, errors.New("several hosts are a cluster, or with ?master=NAME Sentinels")
	}
	return redis.NewClient(o), nil
}

// checkNumbers returns an error for numbers that go-redis does not check: with some it panics, and with fewer than -1 retries it sends nothing and
// reports success.
func checkNumbers(o *redis.Options) error {
	for name, number := range map[string]int{
		"pool_size": o.PoolSize, "pipeline_pool_size": o.PipelinePoolSize, "min_idle_conns": o.MinIdleConns, "max_idle_conns": o.MaxIdleConns,
		"max_active_conns": o.MaxActiveConns,
	} {
		if number > math.MaxInt32 {
			return fmt.Errorf("%s must be at most %d", name, math.MaxInt32)
		}
	}
	switch {
	case o.PoolSize < 0:
		return errors.New("pool_size must not be negative")
	case o.MaxRetries < -1:
		return errors.New("max_retries must be at least -1")
	}
	return nil
}

func (t *target) addrs(port string) (addrs []string) {
	for _, host := range t.hosts {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		addrs = append(addrs, host)
	}
	return addrs
}

// universal converts the options of a client for one server into those of a client for several servers, or for Sentinels if there is a master name.
// go-redis has no such conversion.
func (t *target) universal(o *redis.Options, port string) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: t.addrs(port), MasterName: t.own["master"],
		SentinelUsername: t.own["sentinel_user"], SentinelPassword: t.own["sentinel_password"],
		Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig, Protocol: o.Protocol,
		Dialer: o.Dialer, ClientName: o.ClientName, MaxRetries: o.MaxRetries, MinRetryBackoff: o.MinRetryBackoff, MaxRetryBackoff: o.MaxRetryBackoff,
		DialTimeout: o.DialTimeout, DialerRetries: o.DialerRetries, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, MaxConcurrentDials: o.MaxConcurrentDials,
		PoolFIFO: o.PoolFIFO, PoolSize: o.PoolSize, PoolTimeout: o.PoolTimeout,
		MinIdleConns: o.MinIdleConns, MaxIdleConns: o.MaxIdleConns, MaxActiveConns: o.MaxActiveConns,
		ConnMaxIdleTime: o.ConnMaxIdleTime, ConnMaxLifetime: o.ConnMaxLifetime, ConnMaxLifetimeJitter: o.ConnMaxLifetimeJitter,
		PipelinePoolSize: o.PipelinePoolSize, PipelineReadBufferSize: o.PipelineReadBufferSize, PipelineWriteBufferSize: o.PipelineWriteBufferSize,
		MaintNotificationsConfig: o.MaintNotificationsConfig,
	}
}

// secure adds the certificates and the server name from the parameters.
func (t *target) secure(o *redis.Options) error {
	if o.TLSConfig == nil {
		for _, name := range []string{"ca", "cert", "key", "server_name"} {
			if t.own[name] != "" {
				return fmt.Errorf("%s needs rediss://", name)
			}
		}
		return nil
	}
	if len(t.hosts) > 1 || t.own["master"] != "" || t.own["cluster"] != "" {
		o.TLSConfig.ServerName = "" // each server is checked against its own address
	}
	if name := t.own["server_name"]; name != "" {
		o.TLSConfig.ServerName = name
	}
	if file := t.own["ca"]; file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		o.TLSConfig.RootCAs = x509.NewCertPool()
		if !o.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s has no certificate in PEM form", file)
		}
	}
	if (t.own["cert"] == "") != (t.own["key"] == "") {
		return errors.New("cert and key go together")
	}
	if file := t.own["cert"]; file != "" {
		pair, err := tls.LoadX509KeyPair(file, t.own["key"])
		if err != nil {
			return err
		}
		o.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	o.DialTimeout = cmp.Or(o.DialTimeout, 5*time.Second) // the default of go-redis
	o.Dialer = t.doubting(redis.NewDialer(o))
	return nil
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// doubting returns a dialer that calls t.warn if a TLS handshake times out. A Redis without TLS does not answer the handshake, but waits for the end
// of a line.
func (t *target) doubting(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == context.DeadlineExceeded { //nolint:errorlint // A timeout before the handshake does not match: a *net.OpError wraps it.
			t.warn(fmt.Sprintf("the TLS handshake with %s did not finish: it may speak plain Redis (redis://)", addr))
		}
		return conn, err
	}
}
