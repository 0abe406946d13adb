//! Start order of services: each service starts after the services that it needs.

/// Indexes of the services in start order, or the names of services that need each other in a
/// cycle.
pub(super) type StartOrder<'a> = Result<Vec<usize>, Vec<&'a str>>;

/// Sorts services so that each comes after the services that it needs, and otherwise keeps the
/// given order. Each item is a service's name and the names of the services that it needs, which
/// must also be in the list.
pub(super) fn start_order<'a>(services: &[(&'a str, &'a [String])]) -> StartOrder<'a> {
    let mut order: Vec<usize> = Vec::with_capacity(services.len());
    while order.len() < services.len() {
        let is_started = |need: &String| order.iter().any(|&index| services[index].0 == need);
        let next = (0..services.len())
            .filter(|index| !order.contains(index))
            .find(|&index| services[index].1.iter().all(is_started));
        match next {
            Some(index) => order.push(index),
            None => return Err(cycle(services, &order)),
        }
    }
    Ok(order)
}

/// Finds services that form a cycle: each needs the next one, and the last needs the first. Every
/// service outside `started` must need at least one other service outside `started`.
fn cycle<'a>(services: &[(&'a str, &'a [String])], started: &[usize]) -> Vec<&'a str> {
    let waiting: Vec<_> = (0..services.len())
        .filter(|index| !started.contains(index))
        .map(|index| services[index])
        .collect();
    let mut path: Vec<&str> = Vec::new();
    let mut current = waiting.first();
    while let Some((name, needs)) = current {
        if let Some(start) = path.iter().position(|known| known == name) {
            return path.split_off(start);
        }
        path.push(name);
        current = waiting
            .iter()
            .find(|(other, _)| needs.iter().any(|need| need == other));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_come_first_and_cycles_are_named() {
        let needs = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (none, app, web): (Vec<String>, Vec<String>, Vec<String>) =
            (needs(&[]), needs(&["app"]), needs(&["web"]));
        let order = start_order(&[("web", &app), ("db", &none), ("app", &none)]);
        assert_eq!(order, Ok(vec![1, 2, 0]));
        let order = start_order(&[("db", &none), ("app", &web), ("web", &app)]);
        assert_eq!(order, Err(vec!["app", "web"]));
        assert_eq!(start_order(&[("app", &app)]), Err(vec!["app"]));
    }
}
