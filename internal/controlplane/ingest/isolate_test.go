package ingest

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/kedify/argo-rollouts-plugin/internal/controlplane/translate"
	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// errPoison is the error of failingTranslation.
var errPoison = errors.New("poison")

// failingTranslation returns a translation that fails if one of the hosts has a route, or always for the host "*".
// Its resources name the routes.
func failingTranslation(hosts ...model.Host) func(model.Config) (translate.Resources, error) {
	return func(config model.Config) (translate.Resources, error) {
		names := map[string]proto.Message{}
		for _, host := range hosts {
			if host == model.AnyHost {
				return nil, errPoison
			}
			for _, route := range config.Routes {
				if route.Match.Host == host {
					return nil, errPoison
				}
			}
		}
		for _, route := range config.Routes {
			names[string(route.Match.Host)+" "+route.Owner.Name+" "+route.Backends[0].Service.Name] = nil
		}
		return translate.Resources{"routes": names}, nil
	}
}

// route returns a Route of owner for host to a Service, and config a Config with the Route and an endpoint.
func route(owner string, host model.Host, service string) model.Route {
	return model.Route{
		Owner: model.Key{Namespace: "apps", Name: owner}, Created: time.Unix(1000, 0),
		Match: model.Match{Host: host, PathPrefix: "/"},
		Backends: []model.Backend{{
			Service: model.Key{Namespace: "apps", Name: service}, Port: 80, Weight: 100,
			Protocol: model.HTTP1,
		}},
	}
}

func config(address string, routes ...model.Route) model.Config {
	services := map[model.ServicePort]model.Endpoints{}
	for _, r := range routes {
		services[r.Backends[0].ServicePort()] = model.Endpoints{Ready: []netip.AddrPort{netip.MustParseAddrPort(address)}}
	}
	return model.Config{Routes: routes, Services: services}
}

func TestTranslateAll(t *testing.T) {
	const today, yesterday = "10.0.0.2:80", "10.0.0.1:80"
	valid, poison := route("good", "good.test", "good"), route("shop", "poison.test", "shop-2")
	before := route("shop", "shop.test", "shop-1")
	bad := map[model.Key]error{{Namespace: "apps", Name: "shop"}: errPoison}
	tests := []struct {
		name          string
		envoy         func(model.Config) (translate.Resources, error)
		asked, before model.Config
		want          model.Config
		failures      map[model.Key]error
		err           error
	}{
		{
			name: "no failure", envoy: failingTranslation(),
			asked: config(today, valid, poison), want: config(today, valid, poison),
		},
		{
			name:  "the failed object keeps its routes, the other one is updated",
			envoy: failingTranslation("poison.test"),
			asked: config(today, valid, poison), before: config(yesterday, route("good", "good.test", "old"), before),
			want: model.Config{Routes: []model.Route{valid, before}, Services: map[model.ServicePort]model.Endpoints{
				valid.Backends[0].ServicePort():  {Ready: []netip.AddrPort{netip.MustParseAddrPort(today)}},
				before.Backends[0].ServicePort(): {Ready: []netip.AddrPort{netip.MustParseAddrPort(yesterday)}},
			}},
			failures: bad,
		},
		{
			name: "the failed object has no routes", envoy: failingTranslation("poison.test"),
			asked: config(today, valid, poison), want: config(today, valid), failures: bad,
		},
		{
			name: "a host that moved to another object stays there", envoy: failingTranslation("poison.test"),
			asked: config(today, route("good", "shop.test", "good"), poison), before: config(yesterday, before),
			want: config(today, route("good", "shop.test", "good")), failures: bad,
		},
		{
			name: "no single object fails", envoy: func(config model.Config) (translate.Resources, error) {
				if len(config.Routes) > 1 {
					return nil, errPoison
				}
				return translate.Resources{}, nil
			},
			asked: config(today, valid, poison), before: config(yesterday, before), want: config(yesterday,
				before), err: errPoison,
		},
		{
			name: "every object fails", envoy: failingTranslation(model.AnyHost),
			asked: config(today, poison), want: model.Config{
				Routes:   []model.Route{},
				Services: map[model.ServicePort]model.Endpoints{},
			}, failures: bad, err: errPoison,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			resources, published, failures, err := translateAll(test.envoy, test.asked, test.before, nil)
			if !errors.Is(err, test.err) || (err == nil) != (resources != nil) {
				t.Fatalf("resources %v, error %v, want error %v", resources, err, test.err)
			}
			if diff := cmp.Diff(test.want, published,
				cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.failures, failures, cmp.Comparer(errors.Is)); diff != "" {
				t.Errorf("failures (-want +got):\n%s", diff)
			}
		})
	}
}
