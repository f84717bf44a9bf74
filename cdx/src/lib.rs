//! CDX and CDXJ lines, as the web archive's index servers speak them.
