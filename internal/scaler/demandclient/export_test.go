package demandclient

import (
	"context"
	"net"
	"net/http"
)

// Silence is how long a replica may send nothing before its report becomes invalid.
const Silence = silence

// DialWith has a Reader connect to replicas with dial instead of the network.
func (r *Reader) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	r.client.Transport = &http.Transport{
		DialContext: dial, ResponseHeaderTimeout: connectTimeout, DisableCompression: true, MaxIdleConnsPerHost: -1,
	}
}
