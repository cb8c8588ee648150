package locktest

import (
	"bytes"
	"context"
	"net"
)

// DialDeaf dials a connection that confirms subscriptions and loses every plain message.
func DialDeaf(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	return deafConn{conn}, err
}

type deafConn struct{ net.Conn }

func (c deafConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !bytes.Contains(b[:n], []byte("\r\nmessage\r\n")) {
			return n, err
		}
	}
}
