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
	// claimed are the Routes that each object asks for, in the order of their Matches. Mostly there is one object.
	claimed []claim
	// granted are those that win, in the order of CompareRoutes, and byMatch the same in the order of their Matches.
	granted, byMatch []ir.Route
}

// claim is what one object asks for.
type claim struct {
	owner  ir.Key
	routes []ir.Route
}

// claim sets what an object asks for, nothing when routes is empty. settle has to follow.
func (c *claims) claim(owner ir.Key, routes []ir.Route) {
	c.claimed = slices.DeleteFunc(c.claimed, func(each claim) bool { return each.owner == owner })
	if len(routes) > 0 {
		c.claimed = append(c.claimed, claim{owner, routes})
	}
}

// settle decides who gets what. It returns the objects whose lot may have changed, and says whether any Route did.
func (c *claims) settle() (concerned map[ir.Key]struct{}, changed bool) {
	before := c.granted
	c.granted, c.byMatch = nil, nil
	if len(c.claimed) == 1 {
		c.granted = c.claimed[0].routes // Routes of one object have one order, whichever way they are compared.
		c.byMatch = c.granted
	} else if len(c.claimed) > 1 {
		var all []ir.Route
		for _, each := range c.claimed {
			all = append(all, each.routes...)
		}
		slices.SortFunc(all, byMatchThenAge)
		c.byMatch = slices.Clip(slices.CompactFunc(all, func(a, b ir.Route) bool { return a.Match.Compare(b.Match) == 0 }))
		c.granted = slices.SortedFunc(slices.Values(c.byMatch), ir.CompareRoutes)
	}
	concerned = make(map[ir.Key]struct{}, len(c.claimed))
	for _, each := range c.claimed {
		concerned[each.owner] = struct{}{}
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
