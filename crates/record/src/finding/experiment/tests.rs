use super::*;
use crate::finding::Severity::{Error, Note, Warning};
use crate::finding::{Finding, Subject};
use crate::negotiated::Negotiated;

fn share(variant: &str, share: f64) -> VariantShare {
    VariantShare {
        variant: variant.to_owned(),
        share,
    }
}

#[test]
fn idle_and_unsteady_variants_are_listed_with_their_shares() {
    let idle = ServerIdle {
        used: vec![share("tcp", 0.4), share("unix", 0.123)],
        writes_to_disk: true,
    };
    assert_eq!(
        Finding::of(Warning, &idle).text,
        "The services used only part of their cores (tcp 40%; unix 12%), although the load waits \
         only for them. Something other than their CPU limits the rate; prony has not observed what \
         (possibly a lock, a disk, a backend, too few connections or workers, or the generator). The \
         comparison reflects that bottleneck. Find the bottleneck, or use more connections."
    );
    let unsteady = NotStationary {
        changes: vec![share("tcp", 0.3), share("unix", -0.25)],
    };
    assert_eq!(
        Finding::of(Warning, &unsteady).text,
        "The last third of a trial differs from the first third: tcp 30% faster; unix 25% slower. \
         The rate was not steady. Use a longer warm-up to measure only the settled state."
    );
}

#[test]
fn noise_is_named_with_its_meaning() {
    let noisy = |parts| NoisyMachine {
        parts,
        disturbed: 1,
        all: 6,
        processes_percent: 60.0,
        guests_percent: 20.0,
        mostly: Some("cron".to_owned()),
    };
    let of_trials = |meaning| {
        let text = Finding::of(Error, &noisy(NoisyParts::Trials(meaning))).text;
        let seen = "In 1 of 6 trials something else used the machine: other processes used up to \
                    60% of a core (mostly cron), and other guests used up to 20% of a core. ";
        text.strip_prefix(seen).unwrap().to_owned()
    };
    assert_eq!(
        of_trials(NoiseMeaning::Explains(0.129)),
        "Their usage differs between variants: if the rate is proportional to the CPU time that is \
         left, this alone would change the rate by +12.9%, and without this difference there would \
         be no verdict. Use a quieter machine, or pin the services and the load to cores that \
         nothing else uses."
    );
    let over_share = 0.1;
    let blocks_min = 5;
    assert_eq!(
        of_trials(NoiseMeaning::TooFewBlocks {
            over_share,
            blocks_min
        }),
        "That is over 10% of the cores in the median trial, and fewer than 5 blocks can't show how \
         much of the difference is noise. Run more blocks (--blocks 10), or use a quieter machine."
    );
    assert_eq!(
        of_trials(NoiseMeaning::Crowded { over_share }),
        "That is over 10% of the cores in the median trial. The random order of trials spreads this \
         over all variants and the intervals account for it, but the difference between variants \
         may not be the same on a quiet machine."
    );
    assert_eq!(
        of_trials(NoiseMeaning::Covered),
        "The random order of trials spreads this over all variants and the intervals account for \
         it; on a quieter machine they would be narrower."
    );
    let of_probes = NoisyParts::Probes {
        server: "nginx".to_owned(),
        pid: 12,
    };
    assert_eq!(
        Finding::of(Note, &noisy(of_probes)).text,
        "In 1 of 6 probes, something other than prony and the server, nginx (process 12), used this \
         machine: up to 80% of a core (mostly cron). Unless this belongs to the server, the capacity \
         on a quiet machine may be higher, and repeated runs may differ by more than the interval."
    );
}

#[test]
fn the_effect_of_a_position_is_a_signed_change() {
    let text = |part, ratio| Finding::of(Warning, &OrderEffect { part, ratio }).text;
    assert_eq!(
        text(OrderedPart::TrialRate, 0.9),
        "Each later position in a block changes the rate by −10.0%; a trial probably affects the \
         next one (through heat, ports or caches). The random order spreads this effect over all \
         variants. Use a pause between trials or a longer warm-up to remove it."
    );
    assert_eq!(
        text(OrderedPart::SliceResponseTime, 1.021),
        "Each later position in a round changes the mean response time by +2.1%: a slice affects \
         the next one (through caches, unfinished work or heat). The random order spreads this \
         effect over all variants. Use longer slices (--interleave 1s) to reduce it."
    );
}

#[test]
fn changes_of_the_setup_are_listed() {
    let few = |blocks| {
        let few = FewBlocks {
            blocks,
            wanted: 5,
            interval_min: 3,
        };
        Finding::of(Warning, &few).text
    };
    assert_eq!(
        few(0),
        "No block is complete, so nothing can be compared. Run more blocks (--blocks)."
    );
    assert_eq!(
        few(1),
        "1 complete block can't support an interval. Run 5 blocks or more (--blocks); 3 is the \
         minimum."
    );
    assert_eq!(
        few(4),
        "With 4 blocks the intervals are wide. Run 5 blocks or more (--blocks) to see smaller \
         differences."
    );
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
    let changed = MachineChanged {
        variant: "tcp".to_owned(),
        agents: texts(&["a", "b"]),
    };
    let subject = Subject::Service("web".to_owned());
    assert_eq!(
        Finding::about(subject, Error, &changed).text,
        "tcp: service \"web\" ran on a and b in different trials, so the trials did not all use the \
         same setup. Repeat the experiment with the agent's name instead of its label."
    );
    let changed = AgentsChanged {
        variants: texts(&["tcp", "unix"]),
        groups: vec![texts(&["a", "b"]), texts(&["b", "c"])],
    };
    assert_eq!(
        Finding::of(Warning, &changed).text,
        "tcp; unix: the load was generated by a, b in one trial and by b, c in another. The results \
         include differences between the agents' machines. Repeat the experiment with the same \
         agents available throughout."
    );
    let changed = PlanChanged {
        accepted: vec![AcceptedChange {
            blocks: 1,
            changes: texts(&["`a` was removed", "1 more"]),
        }],
    };
    assert_eq!(
        Finding::of(Warning, &changed).text,
        "The plan was changed while the experiment was interrupted, and --accept-plan-changes was \
         given (after block 1: `a` was removed; 1 more). The results mix blocks of different \
         setups. To get results for the changed plan alone, run it with a new --out folder."
    );
}

#[test]
fn negotiated_protocols_are_named_for_each_side() {
    let by = |name: &str, http: &str| NegotiatedBy {
        name: name.to_owned(),
        negotiated: Negotiated {
            http: Some(http.to_owned()),
            tls: Some("TLSv1.3".to_owned()),
            ..Negotiated::default()
        },
    };
    let text = |sides| {
        let negotiated = vec![by("a", "2"), by("b", "1.1")];
        Finding::of(Warning, &NegotiationDiffers { sides, negotiated }).text
    };
    assert_eq!(
        text(NegotiatingSides::Variants),
        "a and b were configured alike but negotiated different protocols: HTTP/2 TLSv1.3 and \
         HTTP/1.1 TLSv1.3. Set the protocol (--http, --tls-min, --tls-max, --ciphers); if the \
         protocols differ on purpose, set bodies = \"may-differ\" in [load] (--bodies may-differ)."
    );
    assert_eq!(
        text(NegotiatingSides::VariantsThatMayDiffer),
        "a and b were configured alike but negotiated different protocols: HTTP/2 TLSv1.3 and \
         HTTP/1.1 TLSv1.3. The comparison includes this difference."
    );
    assert_eq!(
        text(NegotiatingSides::Agents),
        "Agents negotiated different protocol parameters with the server (a: 2 TLSv1.3; b: 1.1 \
         TLSv1.3), so their requests differ in cost. Fix the parameters with --http, --tls-min, \
         --tls-max or --ciphers."
    );
}

#[test]
fn an_unexpected_status_is_named_with_the_expected_ones() {
    let status = UnexpectedStatus {
        variants: Vec::new(),
        request: "GET http://127.0.0.1/".to_owned(),
        status: Some(404),
        unexpected: 3,
        checked: 9,
        expected: "200-399".to_owned(),
        tls_expected: None,
    };
    assert_eq!(
        Finding::of(Error, &status).text,
        "All variants: GET http://127.0.0.1/ returns status 404, and 2 more of 9 requests; the load \
         expects 200-399. Check the load's path and host, and the server's log; if the status is \
         intended, set expect_status (--expect-status)."
    );
    let status = UnexpectedStatus {
        variants: vec!["tcp".to_owned(), "unix".to_owned()],
        status: None,
        unexpected: 1,
        tls_expected: Some("the port expects TLS".to_owned()),
        ..status
    };
    assert_eq!(
        Finding::of(Error, &status).text,
        "tcp; unix: GET http://127.0.0.1/ returns changing statuses: the port expects TLS."
    );
}

#[test]
fn differences_between_responses_are_described() {
    let difference = |kind| ResponseDifference {
        request: "GET /".to_owned(),
        kind,
    };
    let differ = BytesDiffer {
        variant: Some("tcp".to_owned()),
        baseline: Some("unix".to_owned()),
        difference: Some(difference(DifferenceKind::Status(200, 404))),
        changing: Vec::new(),
    };
    assert_eq!(
        Finding::of(Error, &differ).text,
        "tcp and unix return different responses: GET /: status 200 against 404. Their rates can't \
         be compared. Make the responses identical; if the bodies differ on purpose, set bodies = \
         \"may-differ\" in [load] (--bodies may-differ)."
    );
    let changing = BytesDiffer {
        difference: None,
        changing: vec!["GET /".to_owned(), "GET /b".to_owned()],
        ..differ
    };
    assert_eq!(
        Finding::of(Note, &changing).text,
        "2 requests (GET /) returned a different body each time; only the status was compared."
    );
    let kind = DifferenceKind::Length {
        own: 999,
        baseline: 1000,
        decoded: true,
    };
    let levels = DifferingLevels {
        factor: "site".to_owned(),
        level: "bad".to_owned(),
        against: "good".to_owned(),
        difference: difference(kind),
    };
    let withheld = EffectsWithheld {
        levels: vec![levels],
    };
    assert_eq!(
        Finding::of(Note, &withheld).text,
        "Effects of factors whose levels return different responses are withheld: site = bad \
         instead of good (GET /: 999 bytes against 1000 after decoding)."
    );
    for (kind, text) in [
        (
            DifferenceKind::Varies,
            "GET /: a varying body versus a constant one",
        ),
        (
            DifferenceKind::BaselineVaries,
            "GET /: a constant body versus a varying one",
        ),
        (
            DifferenceKind::Content {
                length: 1,
                decoded: false,
            },
            "GET /: 1 byte each, but with different content",
        ),
        (
            DifferenceKind::Undecodable("corrupt".to_owned()),
            "GET /: a body can't be decoded (corrupt), and its bytes differ",
        ),
    ] {
        assert_eq!(difference(kind).text(), text);
    }
}

#[test]
fn bodies_are_described_as_sent() {
    let plain = SentBody {
        length: Some(1000),
        content_type: None,
        content_encoding: None,
    };
    let small = SentBody {
        length: Some(90),
        content_type: Some("text/html".to_owned()),
        content_encoding: Some("gzip".to_owned()),
    };
    let differences = |own: &SentBody, more| SentDifferences {
        variant: "tcp".to_owned(),
        baseline: "unix".to_owned(),
        first: SentDifference {
            request: "GET /".to_owned(),
            own: own.clone(),
            baseline: plain.clone(),
        },
        more,
    };
    let decoded = BodiesDecoded {
        differences: vec![differences(&small, 1), differences(&plain, 0)],
    };
    assert_eq!(
        Finding::of(Note, &decoded).text,
        "Bodies are identical after decoding, but differ as sent: tcp and unix: GET /: 90 bytes of \
         text/html, gzip against 1000 bytes, and 1 more request; tcp and unix: GET /: 1000 bytes \
         each, but with different content. The comparison includes the cost of the encoding."
    );
    let differ = BodiesMayDiffer {
        differences: vec![differences(&small, 2)],
    };
    assert_eq!(
        Finding::of(Note, &differ).text,
        "Bodies differ, as bodies = \"may-differ\" allows: tcp and unix: GET /: 90 bytes of \
         text/html, gzip against 1000 bytes, and 2 more requests. The comparison includes the cost \
         of that difference."
    );
}
