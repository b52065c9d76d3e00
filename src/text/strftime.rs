//! Dates for templates: `strftime_now(format)`, with the time handed in, since this floor knows no clock.

use std::fmt::Write as _;

use crate::err;
use crate::error::Result;

/// A date and time of day, of the local time zone or whatever the caller means by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateTime {
    /// The year, such as 2026.
    pub year: i32,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 0 to 23.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
    /// 0 to 59.
    pub second: u32,
}

const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl DateTime {
    /// The time `seconds` after 1970-01-01T00:00:00, in the same time zone (add the zone's offset for local time).
    pub fn from_unix(seconds: i64) -> Self {
        // Years of more than five digits are cut off: no clock is that wrong.
        let seconds = seconds.clamp(-60_000_000_000, 250_000_000_000);
        let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // Days since 0000-03-01 in the proleptic Gregorian calendar, whose 400 years have 146,097 days.
        let days = days + 719_468;
        let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * march + 2) / 5 + 1;
        let month = if march < 10 { march + 3 } else { march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self {
            year: year as i32,
            month: month as u32,
            day: day as u32,
            hour: (time / 3600) as u32,
            minute: (time / 60 % 60) as u32,
            second: (time % 60) as u32,
        }
    }

    /// Reads `2025-01-15`, `2025-01-15T12:30` or `2025-01-15T12:30:45`; a fraction or a time zone behind it is ignored.
    ///
    /// Errors: `bad-option` where it is none of these.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = || err!(BadOption, "time: expected a date such as 2025-01-15T12:30:45, found {text:?}");
        let number = |at: usize, len: usize, mark: Option<(usize, &[u8])>| -> Option<u32> {
            if let Some((at, marks)) = mark {
                marks.contains(text.as_bytes().get(at)?).then_some(())?;
            }
            let digits = text.get(at..at + len)?;
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let this = Self {
            year: number(0, 4, None).ok_or_else(bad)? as i32,
            month: number(5, 2, Some((4, b"-"))).ok_or_else(bad)?,
            day: number(8, 2, Some((7, b"-"))).ok_or_else(bad)?,
            hour: if text.len() > 10 { number(11, 2, Some((10, b"T "))).ok_or_else(bad)? } else { 0 },
            minute: if text.len() > 10 { number(14, 2, Some((13, b":"))).ok_or_else(bad)? } else { 0 },
            second: number(17, 2, Some((16, b":"))).unwrap_or(0),
        };
        let days = this.day_of_year_before(this.month.clamp(1, 12) + 1) - this.day_of_year_before(this.month.clamp(1, 12));
        let fits = (1..=12).contains(&this.month) && (1..=days).contains(&this.day);
        if fits && this.hour < 24 && this.minute < 60 && this.second < 61 { Ok(this) } else { Err(bad()) }
    }

    fn is_leap(&self) -> bool {
        self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0)
    }

    /// Days of the year before month `month` (13: the whole year).
    fn day_of_year_before(&self, month: u32) -> u32 {
        let days = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];
        let leap = u32::from(month > 2 && self.is_leap());
        days.get(month as usize - 1).copied().unwrap_or(365) + leap
    }

    /// The day of the year, from 1.
    fn day_of_year(&self) -> u32 {
        self.day_of_year_before(self.month.clamp(1, 12)) + self.day
    }

    /// Days since 1970-01-01.
    fn days(&self) -> i64 {
        let before = i64::from(self.year) - 1;
        let leaps = |y: i64| y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400);
        (before - 1969) * 365 + leaps(before) - leaps(1969) + i64::from(self.day_of_year()) - 1
    }

    /// The day of the week: 0 is Sunday.
    fn weekday(&self) -> u32 {
        (self.days() + 4).rem_euclid(7) as u32
    }

    /// Year and week after ISO 8601: weeks begin on Monday, and week 1 has the year's first Thursday.
    fn iso_week(&self) -> (i32, u32) {
        let monday_based = (self.weekday() + 6) % 7;
        let week = (self.day_of_year() + 9 - monday_based) / 7;
        let weeks_in = |year: i32| {
            let first = Self { year, month: 1, day: 1, ..*self };
            if first.weekday() == 4 || (first.weekday() == 3 && first.is_leap()) { 53 } else { 52 }
        };
        match week {
            0 => (self.year - 1, weeks_in(self.year - 1)),
            week if week > weeks_in(self.year) => (self.year + 1, 1),
            week => (self.year, week),
        }
    }

    /// C's and Python's `strftime` in the C locale: every directive of ISO C, and `%-d` and its like without padding.
    /// Time zones are empty, as for Python's naive times. Unknown directives stay as they are.
    pub fn strftime(&self, format: &str) -> String {
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let rest = chars.as_str();
            match chars.next() {
                None => out.push('%'),
                Some('-') => match chars.next() {
                    Some(directive) => {
                        let text = self.directive(directive).unwrap_or_else(|| format!("%-{directive}"));
                        let short = text.trim_start_matches(['0', ' ']);
                        let numeric = !text.is_empty() && text.trim().bytes().all(|b| b.is_ascii_digit());
                        out.push_str(if !numeric {
                            &text
                        } else if short.is_empty() {
                            "0"
                        } else {
                            short
                        });
                    }
                    None => out.push_str("%-"),
                },
                Some(directive) => match self.directive(directive) {
                    Some(text) => out.push_str(&text),
                    None => {
                        out.push('%');
                        out.push_str(&rest[..directive.len_utf8()]);
                    }
                },
            }
        }
        out
    }

    fn directive(&self, directive: char) -> Option<String> {
        let hour12 = (self.hour + 11) % 12 + 1;
        let weekday = self.weekday();
        let day_name = DAYS[weekday as usize];
        let month_name = MONTHS[(self.month.clamp(1, 12) - 1) as usize];
        let mut out = String::new();
        let two = |n: u32| format!("{n:02}");
        Some(match directive {
            'Y' => self.year.to_string(),
            'C' => two(self.year.div_euclid(100).unsigned_abs()),
            'y' => two(self.year.rem_euclid(100) as u32),
            'm' => two(self.month),
            'd' => two(self.day),
            'e' => format!("{:2}", self.day),
            'j' => format!("{:03}", self.day_of_year()),
            'H' => two(self.hour),
            'I' => two(hour12),
            'k' => format!("{:2}", self.hour),
            'l' => format!("{hour12:2}"),
            'M' => two(self.minute),
            'S' => two(self.second),
            'f' => "000000".to_owned(),
            'p' => if self.hour < 12 { "AM" } else { "PM" }.to_owned(),
            'P' => if self.hour < 12 { "am" } else { "pm" }.to_owned(),
            'A' => day_name.to_owned(),
            'a' => day_name[..3].to_owned(),
            'B' => month_name.to_owned(),
            'b' | 'h' => month_name[..3].to_owned(),
            'w' => weekday.to_string(),
            'u' => ((weekday + 6) % 7 + 1).to_string(),
            'U' => two((self.day_of_year() + 6 - weekday) / 7),
            'W' => two((self.day_of_year() + 6 - (weekday + 6) % 7) / 7),
            'G' => self.iso_week().0.to_string(),
            'V' => two(self.iso_week().1),
            'g' => two(self.iso_week().0.rem_euclid(100) as u32),
            's' => (self.days() * 86_400 + i64::from(self.hour * 3600 + self.minute * 60 + self.second)).to_string(),
            'F' => self.strftime("%Y-%m-%d"),
            'T' | 'X' => self.strftime("%H:%M:%S"),
            'R' => self.strftime("%H:%M"),
            'r' => self.strftime("%I:%M:%S %p"),
            'D' | 'x' => self.strftime("%m/%d/%y"),
            'c' => {
                write!(out, "{} {} {:2} {} {}", &day_name[..3], &month_name[..3], self.day, self.strftime("%T"), self.year)
                    .ok()?;
                out
            }
            'z' | 'Z' => out,
            'n' => "\n".to_owned(),
            't' => "\t".to_owned(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_as_python_does() {
        // Expected values are Python's: datetime(…).strftime(…).
        let t = DateTime::parse("2025-01-15T12:30:45").unwrap();
        assert_eq!(
            t.strftime("%d %b %Y|%B %d, %Y|%Y-%m-%d|%A %a|%j|%H:%M:%S|%I %p|%y|%%"),
            "15 Jan 2025|January 15, 2025|2025-01-15|Wednesday Wed|015|12:30:45|12 PM|25|%"
        );
        assert_eq!(
            t.strftime("%U %W %V %G %u %w %c %x %X %-d %-m %e %-j %f|%z|%Q|%"),
            "02 02 03 2025 3 3 Wed Jan 15 12:30:45 2025 01/15/25 12:30:45 15 1 15 15 000000||%Q|%"
        );
        let t = DateTime::parse("2021-01-03").unwrap();
        assert_eq!(t.strftime("%a %V %G %U %W %s %-H"), "Sun 53 2020 01 00 1609632000 0");
        let t = DateTime::parse("2024-12-30 00:05").unwrap();
        assert_eq!(t.strftime("%a %V %G %j %I:%M %p"), "Mon 01 2025 365 12:05 AM");
        let t = DateTime::parse("2024-02-29T23:59:59.5Z").unwrap();
        assert_eq!(t.strftime("%F %T %j %a"), "2024-02-29 23:59:59 060 Thu");
    }

    #[test]
    fn counts_from_1970() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (1_736_944_245, "2025-01-15 12:30:45"),
            (-1, "1969-12-31 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            let t = DateTime::from_unix(seconds);
            assert_eq!(t.strftime("%F %T"), text);
            assert_eq!(t.strftime("%s"), seconds.to_string());
        }
    }

    #[test]
    fn refuses_what_is_no_date() {
        for text in ["", "2025", "2025-13-01", "2025-02-29", "2025-01-15T25:00", "x025-01-15", "2025-01-15T1", "2025-01-1é"] {
            assert!(DateTime::parse(text).is_err(), "{text}");
        }
    }
}
