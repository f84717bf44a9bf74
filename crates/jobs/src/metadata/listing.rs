//! Scans listings of folders on web servers, and lists of files there.

use std::collections::HashSet;

use url::Url;

use super::super::{Error, Work};
use super::list::{self, Named};
use crawlspace_wacz as wacz;
use crawlspace_wacz::{Location, Problem};

/// Maximum number of listings that are read from one location; a location with more listings is treated as endless.
const MAX_LISTINGS: usize = 100_000;
/// Maximum nesting depth of folders; deeper folders are treated as an endless site.
const MAX_DEPTH: usize = 64;

/// A listing that is still to be read.
struct Listing {
    url: Url,
    /// Links to URLs that are not below this URL are ignored. `None` for the location itself, whose URL is only
    /// known after redirects.
    base: Option<Url>,
}

/// Passes the metadata files of a listing, and of the folders that it links to, to `add`. In an
/// HTML page, only links below the page are followed; JSON and plain lists may contain any URL.
///
/// # Errors
/// [`Error::Remote`] if a listing cannot be read, or is not a listing.
pub(super) fn scan(
    place: &Url,
    http: &wacz::Options,
    work: &Work,
    add: &mut dyn FnMut(Location),
) -> Result<(), Error> {
    let mut seen = HashSet::new();
    let mut listings = vec![Listing {
        url: place.clone(),
        base: None,
    }];
    while let Some(listing) = listings.pop() {
        work.check()?;
        if !seen.insert(listing.url.clone()) {
            continue;
        }
        if seen.len() > MAX_LISTINGS {
            let what = format!("it links to more than {MAX_LISTINGS} listings");
            return Err(wrong(place, what));
        }
        look_into(&listing, http, &mut listings, add)?;
    }
    Ok(())
}

/// Converts an error of a server.
pub(super) fn remote(error: wacz::Error) -> Error {
    Error::Remote {
        url: error.file,
        what: error.problem.to_string(),
    }
}

fn wrong(url: &Url, what: String) -> Error {
    Error::Remote {
        url: Location::Url(url.clone()).to_string(),
        what,
    }
}

fn look_into(
    listing: &Listing,
    http: &wacz::Options,
    listings: &mut Vec<Listing>,
    add: &mut dyn FnMut(Location),
) -> Result<(), Error> {
    let fetched = match wacz::fetch(&listing.url, http) {
        // The file was deleted in the meantime.
        Err(error) if listing.base.is_some() && is_gone(&error.problem) => return Ok(()),
        fetched => fetched.map_err(remote)?,
    };
    let from = fetched.url;
    let text = list::read(fetched.body).map_err(|error| wrong(&listing.url, error.to_string()))?;
    if !text.trim_ascii_start().starts_with(b"<") {
        let here = Location::Url(from);
        let unusable = |why: String| wrong(&listing.url, why);
        for name in list::names(&text).map_err(unusable)? {
            let named = here.join(&name).map_err(unusable)?;
            match (list::kind_of(&named.name()), named) {
                (Named::File, file) => add(file),
                (Named::Folder, Location::Url(url)) => listings.push(Listing { url, base: None }),
                _ => {}
            }
        }
        return Ok(());
    }
    if !is_same(&listing.url, &from) {
        // The target may be a login page, which would look like a folder without files.
        let what = format!("it redirects to {}", Location::Url(from));
        return Err(wrong(&listing.url, what));
    }
    let links = list::links(&text);
    if links.is_empty() && !is_titled(&text) {
        let what = "the page has no links, so it is not a listing of a folder".to_owned();
        return Err(wrong(&listing.url, what));
    }
    let base = listing.base.clone().unwrap_or_else(|| from.clone());
    for link in links {
        let Ok(url) = from.join(&link) else {
            continue;
        };
        if !is_below(&url, &base) {
            continue;
        }
        match (list::kind_of(&name_of(&url)), url) {
            (Named::File, url) => add(Location::Url(url)),
            (_, url) if url.path().ends_with('/') => {
                if depth(&url) > depth(&base) + MAX_DEPTH {
                    let what = format!("its folders are nested more than {MAX_DEPTH} levels deep");
                    return Err(wrong(&base, what));
                }
                listings.push(Listing {
                    url,
                    base: Some(base.clone()),
                });
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_gone(problem: &Problem) -> bool {
    matches!(
        problem,
        Problem::Status {
            status: 404 | 410,
            ..
        }
    )
}

/// Returns whether a redirect led to the same location: servers append `/` to folders, and redirect from `http` to
/// `https`.
fn is_same(asked: &Url, from: &Url) -> bool {
    let bare = |url: &Url| url.path().trim_end_matches('/').to_owned();
    asked.host_str() == from.host_str() && bare(asked) == bare(from)
}

/// Returns whether a page has a title that web servers use for listings of folders.
fn is_titled(page: &[u8]) -> bool {
    let page = page.to_ascii_lowercase();
    [&b"index of"[..], b"directory listing"]
        .iter()
        .any(|words| memchr::memmem::find(&page, words).is_some())
}

fn is_below(url: &Url, base: &Url) -> bool {
    let folder = base
        .path()
        .rsplit_once('/')
        .map_or("", |(folder, _)| folder);
    let rest = url.path().strip_prefix(folder);
    let is_deeper = rest.is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'));
    url.origin() == base.origin() && is_deeper && url.path() != base.path()
}

fn depth(url: &Url) -> usize {
    url.path().bytes().filter(|byte| *byte == b'/').count()
}

fn name_of(url: &Url) -> String {
    Location::Url(url.clone()).name()
}
