//! Plots are the same bytes for the same runs, well-formed, of the right size, and sensible with nothing to show.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use paceline_core::signal::Source;
use paceline_core::units::Span;

use super::*;
use crate::recording::SOURCES;

/// A run that empties a bucket and goes on at `pace` calls a second.
fn run(strategy: &str, secs: u32, pace: u32, refused: u32) -> Recording {
    let mut recording = Recording::new("a <token> bucket & \"all\" headers", strategy, 7, Span::from_secs(1));
    recording.level_meter = "requests".into();
    recording.level_capacity = 1_200.0;
    for second in 0..secs {
        recording.sends.push(if second == 0 { 1_200 } else { pace + refused });
        recording.rejections.push(if second == 0 { 0 } else { refused });
        recording.level.push(f64::from(1_200_u32.saturating_sub(second * 60)));
        let mut waiting = [0.0; SOURCES];
        waiting[Source::Pacing as usize] = f64::from(500 - second.min(500));
        waiting[Source::Backoff as usize] = f64::from(refused);
        recording.waiting_by_source.push(waiting);
    }
    recording
}

fn svg_of(runs: &[Recording]) -> String {
    String::from_utf8(plot(Format::Svg, runs).unwrap()).unwrap()
}

/// Checks that tags nest and that no markup is left over in texts; returns the names of all elements.
fn elements(svg: &str) -> Vec<String> {
    let (mut open, mut names) = (Vec::new(), Vec::new());
    for (nth, part) in svg.split('<').enumerate() {
        let Some((tag, text)) = part.split_once('>') else {
            assert_eq!((nth, part), (0, ""), "text outside of elements");
            continue;
        };
        assert!(!text.contains('>'), "{text}");
        for entity in text.split('&').skip(1) {
            assert!(["amp;", "lt;", "gt;", "quot;"].iter().any(|known| entity.starts_with(known)), "{text}");
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap().to_owned();
        names.push(name.clone());
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<String>::new());
    names
}

/// Width and height as the file's own header says (PNG, 11.2.2: IHDR).
fn png_size(png: &[u8]) -> (u32, u32) {
    assert_eq!(png[..8], [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A]);
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

fn attribute(svg: &str, name: &str) -> u32 {
    svg.split_once(&format!("{name}=\"")).unwrap().1.split_once('"').unwrap().0.parse().unwrap()
}

#[test]
fn the_same_runs_give_the_same_bytes() {
    let runs = [run("paceline", 240, 20, 0), run("full-jitter", 271, 20, 51)];
    for format in [Format::Svg, Format::Png] {
        assert_eq!(plot(format, &runs), plot(format, &runs.clone()));
        assert_ne!(plot(format, &runs), plot(format, &runs[..1]));
    }
}

#[test]
fn the_svg_is_well_formed_and_says_what_it_shows() {
    let svg = svg_of(&[run("paceline", 240, 20, 0), run("a<b>", 271, 20, 51)]);
    let names = elements(&svg);
    assert_eq!((names[0].as_str(), names[1].as_str()), ("svg", "title"));
    assert!(names.iter().all(|name| ["svg", "title", "rect", "path", "text"].contains(&name.as_str())));
    for words in [
        "a &lt;token&gt; bucket &amp; &quot;all&quot; headers",
        ">paceline<",
        ">a&lt;b&gt;<",
        "4 min · 5,980 calls sent, 0.0 % of them rejected",
        ">time (s)<",
        ">calls/s (root scale)<",
        ">requests left<",
        ">callers waiting<",
        ">pacing<",
        ">backoff<",
    ] {
        assert!(svg.contains(words), "{words} is missing");
    }
    assert!(!svg.contains(">jitter<"), "nobody waited for it");
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn the_png_is_twice_the_size_of_the_svg() {
    for count in [0, 1, 2, 5] {
        let runs = vec![run("paceline", 100, 20, 3); count];
        let svg = svg_of(&runs);
        elements(&svg);
        let png = plot(Format::Png, &runs).unwrap();
        assert_eq!(png_size(&png), (attribute(&svg, "width") * 2, attribute(&svg, "height") * 2), "{count} runs");
    }
}

#[test]
fn nothing_and_nonsense_are_drawn_sensibly() {
    assert!(svg_of(&[]).contains("No run was recorded."));
    let empty = Recording::new("empty", "paceline", 0, Span::from_secs(1));
    assert_eq!(svg_of(std::slice::from_ref(&empty)).matches(">no calls<").count(), 4);
    let mut odd = run("odd", 3, 1, 0);
    odd.level = vec![f64::NAN, f64::INFINITY];
    odd.level_capacity = f64::NAN;
    odd.waiting_by_source.clear();
    let svg = svg_of(&[odd, empty]);
    elements(&svg);
    assert!(!svg.contains("NaN") && !svg.contains("inf") && svg.contains("headers, empty<"));
}

#[test]
fn very_different_rates_are_drawn_by_the_root_and_long_runs_stay_small() {
    assert!(svg_of(&[run("paceline", 240, 20, 0)]).contains("root scale"), "a burst of 1,200 beside 20 a second");
    let mut paced = run("paceline", 240, 20, 0);
    paced.sends[0] = 20;
    assert!(!svg_of(&[paced.clone()]).contains("root scale"));
    assert!(svg_of(&[run("hammer", 240, 20, 1_900), paced]).contains("root scale"));
    assert!(svg_of(&[run("slow", 20_000, 2, 0)]).len() < 60_000);
}

#[test]
fn a_title_that_is_too_long_for_the_picture_goes_on_below() {
    let mut long = run("paceline", 10, 20, 0);
    long.title = "priorities: A batch saturates the limit, and people ask for a fifth of it one by one".into();
    let svg = svg_of(&[long]);
    elements(&svg);
    assert!(!svg.contains(">priorities: A batch saturates the limit, and people ask for a fifth of it one by one</text>"));
    assert!(svg.contains(">priorities: A batch saturates the limit,"), "{}", &svg[..600]);
}

#[test]
fn formats_and_errors() {
    assert_eq!(Format::of(Path::new("a/b.SVG")), Ok(Format::Svg));
    assert_eq!(Format::of(Path::new("b.png")), Ok(Format::Png));
    let error = Format::of(Path::new("b.jpg")).unwrap_err().to_string();
    assert!(error.contains("`b.jpg`") && error.contains(".svg or .png"), "{error}");
    let error = plot(Format::Svg, &vec![run("x", 1, 1, 0); MOST_RUNS + 1]).unwrap_err().to_string();
    assert!(error.contains("17 runs") && error.contains("choose fewer"), "{error}");
}
