//! Projections, checked against results of MongoDB 6.
