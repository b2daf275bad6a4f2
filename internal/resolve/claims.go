package resolve

import (
	"slices"

	"github.com/kedify/argo-rollouts-plugin/internal/ir"
)

// site is a host in one fleet: what objects of other fleets ask for is another site.
type site struct {
	fleet ir.Fleet
	host  ir.Host
}

// siteOf is where a Route is.
func siteOf(route ir.Route) site { return site{route.Fleet, route.Match.Host} }

// claims are what objects ask for of one site.
type claims struct {
	// byOwner are the Routes that each object asks for, in the order of their Matches.
	byOwner map[ir.Key][]ir.Route
	// granted are those that win, in the order of CompareRoutes, and byMatch the same in the order of their Matches.
	granted, byMatch []ir.Route
}

// claim sets what an object asks for, nothing when routes is empty. settle has to follow.
func (c *claims) claim(owner ir.Key, routes []ir.Route) {
	if len(routes) == 0 {
		delete(c.byOwner, owner)
		return
	}
	c.byOwner[owner] = routes
}

// settle decides who gets what. It returns the objects whose lot may have changed, and says whether any Route did.
func (c *claims) settle() (concerned map[ir.Key]struct{}, changed bool) {
	before := c.granted
	c.granted, c.byMatch = nil, nil
	var all []ir.Route
	for _, routes := range c.byOwner {
		if len(c.byOwner) == 1 {
			c.granted, c.byMatch = routes, routes // Routes of one object have one order, whichever way they are compared.
			break
		}
		all = append(all, routes...)
	}
	if len(all) > 0 {
		slices.SortFunc(all, byMatchThenAge)
		c.byMatch = slices.Clip(slices.CompactFunc(all, func(a, b ir.Route) bool { return a.Match.Compare(b.Match) == 0 }))
		c.granted = slices.SortedFunc(slices.Values(c.byMatch), ir.CompareRoutes)
	}
	concerned = make(map[ir.Key]struct{}, len(c.byOwner))
	for owner := range c.byOwner {
		concerned[owner] = struct{}{}
	}
	for _, route := range before {
		concerned[route.Owner] = struct{}{}
	}
	return concerned, !slices.EqualFunc(before, c.granted, ir.Route.Equal)
}

// winner returns the Route that a Match goes to. There is one for every Match that anybody claims.
func (c *claims) winner(match ir.Match) (ir.Route, bool) {
	at, found := slices.BinarySearchFunc(c.byMatch, match, func(route ir.Route, match ir.Match) int { return route.Match.Compare(match) })
	if !found {
		return ir.Route{}, false
	}
	return c.byMatch[at], true
}

// divide divides the Routes of one object, which are in the order of their Matches, by site. The
// parts share their memory.
func divide(routes []ir.Route) map[site][]ir.Route {
	divided := make(map[site][]ir.Route, 1)
	for first := 0; first < len(routes); {
		at, next := siteOf(routes[first]), first+1
		for next < len(routes) && siteOf(routes[next]) == at {
			next++
		}
		divided[at] = routes[first:next:next]
		first = next
	}
	return divided
}
