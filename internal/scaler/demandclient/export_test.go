package demandclient

import (
	"context"
	"net"
	"net/http"
)

// Silence is how long a replica may send nothing before its report counts no more.
const Silence = silence

// DialWith has a Reader connect to replicas by dial instead of the network.
func (r *Reader) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	r.client.Transport = &http.Transport{
		DialContext: dial, ResponseHeaderTimeout: connectDeadline, DisableCompression: true, MaxIdleConnsPerHost: -1,
	}
}
